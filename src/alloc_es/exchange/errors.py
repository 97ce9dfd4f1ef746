"""What can go wrong with exports: damaged files, and places that are taken."""

from pathlib import Path

from alloc_es.errors import AllocationError


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
