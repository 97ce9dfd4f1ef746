"""What can go wrong with exports: damaged files, and places that are taken."""

from pathlib import Path

from alloc_es.errors import AllocationError, Refusal


class ExportDamaged(AllocationError):
    """A file of an export is not as it was written: at `line` (of Parquet: row), if that is known.

    `path` names the file, and `problem` says what is wrong with it.
    """

    def __init__(self, path: str | Path, line: int | None, problem: str) -> None:
        self.path = str(path)
        self.line = line
        self.problem = problem
        unit = "row" if self.path.endswith(".parquet") else "line"
        place = "" if line is None else f", {unit} {line}"
        super().__init__(
            f"{self.path}{place}: {problem}; nothing of it can be relied on, "
            f"export it again or use another copy"
        )


class ExportExists(Refusal):
    """A place to export to is taken by something that the same log has not written; `problem`."""

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path = str(path)
        self.problem = problem
        super().__init__(
            f"{self.path} is there already and {problem}; nothing was written: "
            f"export to another place, or remove it; --force replaces an export"
        )


class StoreNotEmpty(Refusal):
    """A log can't be imported into a store that holds events; `where` names it for people."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(f"{where} holds events already; nothing was imported: name an empty store")


class ImportRefused(Refusal):
    """The rules of a store's own tables refuse the log in `path`; `problem` says what they met."""

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path = str(path)
        self.problem = problem
        super().__init__(
            f"the log in {self.path} breaks a rule of the store: {problem}; nothing was imported: "
            f"`alloc-es audit --from {self.path}` says what is wrong with it"
        )
