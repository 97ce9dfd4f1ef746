"""A process that commits until it is stopped: `python -m tests.faults.writer URL [BYTES]`.

It prints the command id of each commit once it was told "done", and at the first error its
class, the command id and the message. With BYTES no file may grow beyond that.
"""

import os
import resource
import sys

import alloc_es
from tests.faults.commands import KEY


def main(url: str, limit: str = "") -> None:
    with alloc_es.connect(url, timeout=1) as allocations:
        workflow = allocations.workflow(*KEY)
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
        for number in range(1_000_000):
            command_id = f"command-{number}-{os.getpid()}"
            try:
                workflow.commit_allocation({"v2": 1 + number % 9_000}, command_id=command_id)
            except alloc_es.AllocationError as error:
                print(type(error).__name__, command_id, error, flush=True)
                return
            print(command_id, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
