"""`alloc-es`, but an audit says which processes it has started and waits when one has answered."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from alloc_es.cli import main


class Told(subprocess.Popen[bytes]):
    """A process that is told of on stdout."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        print(self.pid, flush=True)


@contextmanager
def waiting(*_: Any, **__: Any) -> Iterator[Callable[[int, int], None]]:
    def wait(_done: int, _goal: int) -> None:
        print("waits", flush=True)
        threading.Event().wait()

    yield wait


if __name__ == "__main__":
    with patch("subprocess.Popen", Told), patch("alloc_es.cli.auditing.counted", waiting):
        main()
