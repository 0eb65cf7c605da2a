"""Semantic replacement: each query becomes a concept drawn at random, similar ones more often (proof: semantic.md)."""
