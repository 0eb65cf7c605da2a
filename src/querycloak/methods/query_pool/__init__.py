"""Noisy counts of the queries of a public pool (proof: query_pool.md)."""
