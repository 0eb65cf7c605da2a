"""Releases in the formats of other tools: judgements, data sets, spreadsheets (public; post-processing only)."""
