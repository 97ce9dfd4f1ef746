"""How much a test tries: enough in `make test`, and what was asked for in `make soak`."""

import os

SOAK = "ALLOC_ES_SOAK"


def effort(usual: int, soak: int) -> int:
    """One number or the other, by what the run is for."""
    return soak if os.environ.get(SOAK) else usual
