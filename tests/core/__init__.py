"""The tests of the pure core: no store, no clock, no network."""
