"""Starting the process that commits until it is stopped."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).parents[2]


@contextmanager
def writer(url: str, limit: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A running `tests.faults.writer`, killed at the end of the block if it still runs."""
    arguments = [url] if limit is None else [url, str(limit)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.writer", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
