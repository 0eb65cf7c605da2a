"""Semantic replacement (proof: semantic.md)."""
