"""The one door to randomness, and numbers without rounding error."""
