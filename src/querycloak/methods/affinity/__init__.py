"""k-theta affinity: queries protected by queries like them (what that means: affinity.md)."""
