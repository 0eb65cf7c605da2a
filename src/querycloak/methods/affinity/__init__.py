"""k-theta affinity: queries released if k users asked similar ones, without a guarantee (note: affinity.md)."""
