"""Guarantees, noise, accounting: what every stage uses. No engine, no files except the ledger."""
