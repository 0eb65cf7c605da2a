"""Noisy counts of queries (proof: queries.md)."""
