"""What can go wrong where old runs are moved into archives, and where they are looked for."""

from pathlib import Path

from alloc_es.errors import AllocationError, Refusal


class RunsArchived(Refusal):
    """A read of the run log would miss runs that were moved into an archive.

    It began `after` a position, and the runs up to `archived_to` are in archives, of which
    the first that is missing is called `archive`.
    """

    def __init__(self, archive: str, *, archived_to: int, after: int) -> None:
        self.archive = archive
        self.archived_to = archived_to
        self.after = after
        super().__init__(
            f"the runs up to position {archived_to} were archived, and those behind position "
            f"{after} are in the archive {archive}; "
            f"give its directory: --archive PATH, or connect(archives=[…])"
        )


class RunArchived(Refusal):
    """A run was moved into an archive that is not at hand, so what it was allotted can't be told.

    `tenant_id` and `run_id`, the `position` that it had in the run log, and the name of the
    `archive` that holds it.
    """

    def __init__(self, tenant_id: str, run_id: str, *, position: int, archive: str) -> None:
        self.tenant_id = tenant_id
        self.run_id = run_id
        self.position = position
        self.archive = archive
        super().__init__(
            f"run id {run_id} of tenant {tenant_id} was given out before, and its run, at position "
            f"{position}, is in the archive {archive}; to be told what it was allotted, give the "
            f"directory of that archive: --archive PATH, or connect(archives=[…])"
        )


class NotYetFollowed(Refusal):
    """A read model has not passed the runs that were to be archived.

    The `name` of the read model, its `state` (live or building) and the `position` that it
    is at, and `up_to` where the runs were to go.
    """

    def __init__(self, name: str, state: str, *, position: int, up_to: int) -> None:
        self.name = name
        self.state = state
        self.position = position
        self.up_to = up_to
        model = f"the read model {name}" if state == "live" else f"a new build of {name}"
        super().__init__(
            f"{model} is at position {position} of the runs, and those up to {up_to} were to be "
            f"archived; bring it on first: alloc-es projections run {name} --catch-up"
        )


class ArchivedMeanwhile(AllocationError):
    """Somebody else has archived runs while this was under way; nothing of it is recorded.

    The files that are complete in `directory` belong to no archive. `archive` is the one that
    came first, and its runs are those up to `archived_to`.
    """

    def __init__(self, directory: Path | str, *, archive: str, archived_to: int) -> None:
        self.directory = str(directory)
        self.archive = archive
        self.archived_to = archived_to
        super().__init__(
            f"the archive {archive}, of the runs up to position {archived_to}, came first; "
            f"{directory} is none: remove it, and archive again to archive what is left"
        )


class ArchiveMismatch(AllocationError):
    """The files of a `directory` are not the archive that they should be; `problem` says why.

    `advice` says what to do.
    """

    def __init__(
        self,
        directory: Path | str,
        problem: str,
        advice: str = "nothing is read from it, use another copy of the archive",
    ) -> None:
        self.directory = str(directory)
        self.problem = problem
        self.advice = advice
        super().__init__(f"{directory}: {problem}; {advice}")
