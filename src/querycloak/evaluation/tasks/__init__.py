"""One task a file, with its measures; `evaluation/task.py` lists them and says what a task is."""
