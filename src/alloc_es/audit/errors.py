"""What an audit can't go on from."""

from alloc_es.errors import AllocationError


class AuditorLost(AllocationError):
    """A process of an audit ended before it had answered, with an exit code of the system's."""

    def __init__(self, exit_code: int | None) -> None:
        self.exit_code = exit_code
        super().__init__(
            f"a process of the audit ended with exit code {exit_code}, so the audit is not "
            f"whole; nothing was changed, run it again"
        )
