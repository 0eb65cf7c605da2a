"""Releases: what a method made of a log, the folder that holds it, and how it gets there and back."""
