"""Utility of a release: tasks with their measures (meaning, citation), baselines, and means with intervals."""
