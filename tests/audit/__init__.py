"""Audits and seals: whatever was done to a log is found, and nothing else is."""
