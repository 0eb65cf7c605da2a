"""What several releases about the same people come to."""
