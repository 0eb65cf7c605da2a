"""WordNet generalisation of single queries (what that means: generalize.md)."""
