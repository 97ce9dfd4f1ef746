"""`alloc-es` without its start: processes forked from one that has imported everything.

To import it takes longer than most commands take. Whoever runs `command()` runs a small program
that hands its streams, arguments, directory and environment to a server, which forks a process
that is then what `python -m alloc_es.cli` is once it has been imported. Not for tests of an
interpreter's own start and options, or of processes that are killed.
"""

import atexit
import gc
import json
import os
import select
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alloc_es import cli
from alloc_es.store import postgres, sqlite

_CLIENT = Path(__file__).with_name("warm_client.py")
_NEEDED = (cli, postgres, sqlite)


@cache
def command() -> list[str]:
    """What stands in front of the arguments of `alloc-es`; starts this process's server once."""
    directory = TemporaryDirectory(prefix="alloc-es-warm-")
    atexit.register(directory.cleanup)
    place = f"{directory.name}/socket"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.warm", place],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    atexit.register(server.communicate)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return [sys.executable, "-IS", str(_CLIENT), place]


def put_into(directory: Path) -> None:
    """Put such a command into a directory for the front of PATH, as `alloc-es`."""
    script = directory / "alloc-es"
    script.write_text(f'#!/bin/sh\nexec {" ".join(command())} "$@"\n')
    script.chmod(0o755)


def serve(place: str) -> bool:
    """Fork a process for each request until stdin ends; True in a process that is the command."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    return _attend(connection)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    pass
    return False


def _attend(connection: socket.socket) -> bool:
    """Fork once more: one is the command, the other waits for it and says how it ended."""
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    request = json.loads(connection.makefile("rb").read(int.from_bytes(size)))
    pid = os.fork()
    if pid == 0:
        _become(request, dict(zip(request["streams"], streams, strict=True)))
        return True
    with suppress(BrokenPipeError):
        connection.sendall(pid.to_bytes(8))
        for stream in streams:
            os.close(stream)
        connection.sendall(os.waitpid(pid, 0)[1].to_bytes(8))
    os._exit(0)


def _become(request: Any, streams: dict[int, int]) -> None:
    """Have the streams, the arguments, the directory and the environment of a request."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = None
        if number in streams:
            os.dup2(streams[number], number)
            os.close(streams[number])
            stream = open(  # noqa: SIM115 - open to the end
                number,
                "w" if number else "r",
                buffering=1 if name == "stderr" else -1,
                encoding=request["environment"].get("PYTHONIOENCODING"),
                errors="backslashreplace" if name == "stderr" else None,
                closefd=False,
            )
        else:
            os.close(number)
        setattr(sys, name, stream)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    sys.path[0] = request["directory"]


if __name__ == "__main__":
    cli.app()
    gc.freeze()
    if serve(sys.argv[1]):
        cli.main()
