"""A whole made-up log under one user-level budget (proof: synthetic.md)."""
