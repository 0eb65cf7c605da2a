"""Noisy counts of (query, url) pairs (proof: clicks.md)."""
