"""The rules of the logs: each finds what breaks it, and nothing in a log of the library's own."""
