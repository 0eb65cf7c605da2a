"""Queries generalised to WordNet concepts that at least k users share, without a guarantee (note: generalize.md)."""
