"""A search log that behaves like a real one, of any size, with the truth known."""
