"""Tests of what was promised: leaks, and later neighbours, testers and attacks."""
