"""Followers: what they hear, and what they come through."""
