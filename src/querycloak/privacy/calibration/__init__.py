"""What noise, thresholds and selections cost: formulas without data, their proof notes beside them."""
