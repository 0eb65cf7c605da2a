"""Queries generalised to WordNet concepts that at least k users share; no guarantee (note: generalize.md)."""
