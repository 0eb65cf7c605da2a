"""What a search log is, and how it is read."""
