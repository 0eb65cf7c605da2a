"""Tests of what was promised: attacks on releases, and leaks."""
