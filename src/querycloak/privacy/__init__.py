"""The words that every stage speaks: guarantees, noise, accounting. No engine, no files but the ledger."""
