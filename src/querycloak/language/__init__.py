"""A model of what people ask, from a release alone: probabilities, completions, samples (public; post-processing)."""
