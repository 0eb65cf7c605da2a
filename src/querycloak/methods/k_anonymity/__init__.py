"""What at least k users share (what that means: k_anonymity.md)."""
