"""Text: spans of bytes, normalisation."""
