"""Tests of promises: attacks on releases, and tests of guarantees."""
