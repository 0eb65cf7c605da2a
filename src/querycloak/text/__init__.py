"""Text: spans of bytes, normalisation, words; taxonomies such as WordNet's nouns, and concepts of queries."""
