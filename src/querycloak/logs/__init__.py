"""Search logs: formats, reading, checks of every row, and lazy tables of searches, clicks, views and sessions."""
