"""Cost of noise, thresholds and selections: formulas without data, their proof notes beside them."""
