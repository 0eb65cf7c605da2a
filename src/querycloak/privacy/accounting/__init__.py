"""Composition: what several releases about the same people guarantee together."""
