"""The only source of random numbers, and numbers without rounding error."""
