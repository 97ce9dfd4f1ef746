"""A process that kills what a launcher has started when the launcher itself is gone."""

import subprocess
from contextlib import suppress
from threading import Lock

# A participant ends by itself when its pipe ends; one that was stopped can't. The watchdog reads
# who was started and who was reaped, and when its pipe ends kills those who are left, each with
# what it has started: it leads a group of processes.
_SCRIPT = """
pids=
while read -r sign pid; do
    rest=
    for each in $pids; do [ "$each" = "$pid" ] || rest="$rest $each"; done
    pids=$rest
    [ "$sign" = - ] || pids="$pids $pid"
done
for each in $pids; do kill -s KILL -- "-$each"; done
"""


class Watchdog:
    """Knows the processes of one launcher; safe for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A Ctrl-C is for the launcher.
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        """A process was started."""
        self._say(f"+ {pid}\n")

    def forget(self, pid: int) -> None:
        """It was reaped; its number may soon be another's."""
        self._say(f"- {pid}\n")

    def close(self) -> None:
        """Let it see to whoever is left, and end."""
        assert self._process.stdin
        with self._lock, suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process.stdin
        # One that was killed protects nobody, and breaks nothing.
        with self._lock, suppress(BrokenPipeError):
            if not self._process.stdin.closed:
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()
