"""From a budget to noise, threshold and selection, and the histogram drawn with them; proof notes beside the code."""
