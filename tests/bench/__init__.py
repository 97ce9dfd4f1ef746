"""`make bench`: what the ledger costs, beside a hand-written row and the library's own classes."""
