"""Text: spans of bytes, normalisation; taxonomies and the forms of words."""
