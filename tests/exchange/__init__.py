"""Tests of exports, of what is read of them, and of importing them."""
