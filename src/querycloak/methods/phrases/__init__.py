"""Noisy counts of words and word sequences (proof: phrases.md)."""
