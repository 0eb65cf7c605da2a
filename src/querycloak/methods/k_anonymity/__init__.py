"""Queries and clicks shared by at least k users (proof note: k_anonymity.md)."""
