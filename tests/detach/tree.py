"""A scratch copy of the repository, in which a change can be made and tests run."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.detach.changes import Change
from tests.detach.recorder import RECORD

_SOURCES = ("src", "projections")
_HANGING_SECONDS = "90"
_LONGEST_RUN_SECONDS = 600

_WHERE = """
import importlib.util, sys
for name in sys.argv[1:]:
    spec = importlib.util.find_spec(name)
    print(name, spec and spec.origin, sep="\\t")
"""

Outcomes = dict[str, set[str]]


class Tree:
    """A copy of a repository's files at `root`, whose tests import nothing but the copy.

    Raises `RuntimeError` when they would import another copy that is installed.
    """

    def __init__(self, source: Path, root: Path) -> None:
        self.root = root
        for name in _files(source):
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target)
        self._refuse_other_code()

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

    def import_error(self, file: str) -> str | None:
        """Why a module of the tree can't be imported; None if it can, or is no module."""
        source, *parts = Path(file).with_suffix("").parts
        if source not in _SOURCES or not file.endswith(".py"):
            return None
        module = ".".join(parts).removesuffix(".__init__")
        done = self._python("-c", f"import {module}")
        return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]

    def run(self, tests: Sequence[str], environment: dict[str, str]) -> Outcomes:
        """Run tests on this tree's own code; their outcomes by node id.

        A test that hangs fails after 90 seconds. When the run as a whole does not end, what
        it has not recorded by then is not among the outcomes.
        """
        record = self.root / ".outcomes"
        record.unlink(missing_ok=True)
        if not tests:
            return {}
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "tests.detach.recorder", "--continue-on-collection-errors"]
        # Python 3.11 may fail to parse, for a prettier traceback, what has just failed:
        # https://github.com/python/cpython/issues/106905
        command += ["--tb=native", "--timeout", _HANGING_SECONDS, *tests]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command,
                cwd=self.root,
                env={**self._environment(), **environment, RECORD: str(record)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_LONGEST_RUN_SECONDS,
                check=False,
            )
        return _outcomes(record)

    def _refuse_other_code(self) -> None:
        folders = [folder for name in _SOURCES if (folder := self.root / name).is_dir()]
        names = [path.stem for folder in folders for path in folder.iterdir() if _is_module(path)]
        for line in self._python("-c", _WHERE, *names).stdout.splitlines():
            name, _, origin = line.partition("\t")
            if not Path(origin).resolve().is_relative_to(self.root.resolve()):
                raise RuntimeError(f"tests in {self.root} would import {name} from {origin}")

    def _python(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        # Away from the tree, as a process that a test starts may be.
        return subprocess.run(
            [sys.executable, "-B", *arguments],
            cwd=self.root.anchor,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def _environment(self) -> dict[str, str]:
        # PYTHONPATH, because child processes inherit it and it comes before what is installed.
        own_code = os.pathsep.join(str(self.root / part) for part in (*_SOURCES, "."))
        return {**os.environ, "PYTHONPATH": own_code}


def outcomes_of(test: str, outcomes: Outcomes) -> set[str]:
    """What became of a test: all its parameters, unless the node id names one."""
    inside = (f"{test}[", f"{test}::")
    return set().union(
        *(found for name, found in outcomes.items() if name == test or name.startswith(inside))
    )


def _is_module(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__init__.py").is_file()


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


def _outcomes(record: Path) -> Outcomes:
    outcomes: Outcomes = {}
    for line in record.read_text().splitlines() if record.exists() else []:
        test, outcome = json.loads(line)
        outcomes.setdefault(test, set()).add(outcome)
    return outcomes
