"""The tests of alloc-es."""
