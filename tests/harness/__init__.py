"""Participants in three modes, their lives, and what becomes of requests."""
