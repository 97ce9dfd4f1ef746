"""A scratch copy of the repository, in which a change can be made and tests run."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.detach.changes import Change
from tests.detach.recorder import RECORD

_MINUTES = 5 * 60


class Tree:
    """A copy of a repository's files at `root`."""

    def __init__(self, source: Path, root: Path) -> None:
        self.root = root
        for name in _files(source):
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target)

    @contextmanager
    def changed(self, change: Change) -> Iterator[None]:
        """The tree with a change in it, for a while."""
        path = self.root / change.file
        before = path.read_text()
        path.write_text(before.replace(change.old, change.new))
        try:
            yield
        finally:
            path.write_text(before)

    def run(self, tests: Sequence[str], environment: dict[str, str]) -> dict[str, set[str]]:
        """Run tests on this tree's own code; their outcomes by node id, without parameters.

        A test that hangs has the outcome `failed`.
        """
        record = self.root / ".outcomes"
        record.unlink(missing_ok=True)
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "tests.detach.recorder", "--timeout", "90", *tests]
        own_code = os.pathsep.join(str(self.root / part) for part in ("src", "projections", "."))
        try:
            subprocess.run(
                command,
                cwd=self.root,
                env={**os.environ, **environment, "PYTHONPATH": own_code, RECORD: str(record)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_MINUTES,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {test: {"failed"} for test in tests}
        return _outcomes(record)


def _files(source: Path) -> list[str]:
    """The files that git tracks, and those it neither tracks nor ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=source,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.split("\0") if name and (source / name).is_file()]


def _outcomes(record: Path) -> dict[str, set[str]]:
    outcomes: dict[str, set[str]] = {}
    for line in record.read_text().splitlines() if record.exists() else []:
        test, outcome = json.loads(line)
        outcomes.setdefault(test.partition("[")[0], set()).add(outcome)
    return outcomes
