"""Output counts of Hong et al. (EDBT 2012): constraints, linear programs, whole counts (optimal.md, paper variant)."""
