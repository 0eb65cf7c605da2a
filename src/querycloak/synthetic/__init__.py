"""Generator of synthetic search logs of any size, close to AOL's, with known truth: people, queries, clicks, files."""
