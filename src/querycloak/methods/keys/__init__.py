"""Shared parts of counts by key: contribution bounding, partition selection, thresholds, weights, public keys."""
