"""`make reliability`: commands are killed, fuzzed, raced, filled and cut off; `docs/reliability.md` has the table."""
