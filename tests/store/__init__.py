"""The store suite: one set of rules, tested on every kind of store."""
