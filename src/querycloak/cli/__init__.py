"""The command line: one command a file, with its options, its work and its output; `cli.py` lists the commands."""
