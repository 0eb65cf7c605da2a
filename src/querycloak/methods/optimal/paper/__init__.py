"""The paper's `optimal`: users drawn for output counts that a program optimises (optimal.md, paper variant)."""
