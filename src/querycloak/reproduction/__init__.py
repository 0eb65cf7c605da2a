"""Tables and figures of the five papers beside ours; `exhibit.py` lists the papers, each has a module of exhibits."""
