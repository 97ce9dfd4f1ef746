"""Archives of old runs."""
