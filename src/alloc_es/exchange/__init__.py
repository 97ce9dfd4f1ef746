"""Exports: the logs of a store as files, and a store of them again."""
