"""A process that closes stores of SQLite under threads that read them, again and again."""

import sys
from threading import Barrier, Thread

from alloc_es import StoreUnavailable, Workflow, connect

_READERS = 3


def read(workflow: Workflow, started: Barrier) -> None:
    """Read until the store is closed."""
    workflow.allocation()
    started.wait()
    try:
        while True:
            workflow.allocation()
    except StoreUnavailable:
        return


def main(url: str, rounds: int) -> None:
    """Open, let threads read, and close while they do."""
    for number in range(rounds):
        allocations = connect(url)
        workflow = allocations.workflow("acme", f"w{number}")
        workflow.start("v1")
        started = Barrier(_READERS + 1)
        readers = [Thread(target=read, args=(workflow, started)) for _ in range(_READERS)]
        for reader in readers:
            reader.start()
        started.wait()
        allocations.close()
        for reader in readers:
            reader.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
