"""Records under the European rules for search data (note: eu_records.md)."""
