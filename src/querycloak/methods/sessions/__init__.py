"""Noisy counts of query sequences, and of clicks (proof: sessions.md)."""
