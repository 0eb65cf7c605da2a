"""What counts of keys share: contribution bounding, partition selection, thresholds, weights, public keys."""
