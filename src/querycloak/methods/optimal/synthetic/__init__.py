"""The default of `optimal`: synthetic users from private associations (optimal.md, default variant)."""
