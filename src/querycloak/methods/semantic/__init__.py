"""Semantic replacement: each query drawn anew among concepts of similar meaning (proof: semantic.md)."""
