"""The tables and figures of the five papers, made again: ours beside what is printed, and what to say of both."""
