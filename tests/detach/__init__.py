"""Proof that the tests can fail: each guard is taken off once, and its tests must turn red."""
