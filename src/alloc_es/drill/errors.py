"""What ends a drill before its verdict, besides what a store and a launcher refuse."""

from alloc_es.errors import AllocationError


class RestartFailed(AllocationError):
    """The `command` that restarts the server did not: its `problem`."""

    def __init__(self, command: str, problem: str) -> None:
        self.command = command
        self.problem = problem
        super().__init__(
            f"the restart by `{command}` failed: {problem}; "
            "see to the server, and run the command by hand"
        )
