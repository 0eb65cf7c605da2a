"""The tables and figures of the five papers, made again: ours beside what is printed, and what is to be said of both."""
