"""Releases in the log's own schema: synthetic users from private associations, or the paper's optimal sampling."""
