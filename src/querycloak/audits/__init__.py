"""Audits: attacks on releases (`release_audit`), and tests of a method's guarantee (`guarantees/`)."""
