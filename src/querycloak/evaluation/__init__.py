"""Utility of a release. Measures are declared (name, citation, parameters) apart from their computation."""
