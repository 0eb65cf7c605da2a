"""Search logs and their reading."""
