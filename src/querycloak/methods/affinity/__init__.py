"""k-theta affinity: queries that k users asked, or asked like them; no guarantee (note: affinity.md)."""
