"""Runs `alloc-es` as a person does, with its exit code and both streams."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from alloc_es import cli
from tests.support import warm


class Output(io.StringIO):
    """What stands in for stdout of a command inside this process."""


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Terminal:
    """A shell in which one store is chosen."""

    store: str

    def run(self, *arguments: str, **environment: str) -> Done:
        """Run a command to its end inside this process, which is quick."""
        out, err = Output(), io.StringIO()
        with self._as_command(arguments, environment), redirect_stdout(out), redirect_stderr(err):
            try:
                cli.main()
            except SystemExit as end:
                code = end.code
        assert code is None or isinstance(code, int)
        return Done(code or 0, out.getvalue(), err.getvalue())

    def process(self, *arguments: str, **environment: str) -> Done:
        """Run a command as a process of its own, with streams that are none of Python's."""
        done = subprocess.run(
            [*warm.command(), *arguments],
            env=self._environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def screen(self, *arguments: str, out: Path | None = None) -> str:
        """What a terminal behind stderr, and behind stdout if there is no file for it, is sent."""
        ours, theirs = os.openpty()
        with (
            (out or Path(os.devnull)).open("w") as file,
            subprocess.Popen(
                [*warm.command(), *arguments],
                env=self._environment({"TERM": "xterm-256color"}),
                stdout=file if out else theirs,
                stderr=theirs,
            ) as process,
        ):
            os.close(theirs)
            with os.fdopen(ours, "rb", buffering=0) as screen:
                seen = until_closed(screen)
        assert process.returncode == 0
        return seen.decode()

    def started(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """A command as a process that is under way, with pipes to talk to it: the real thing."""
        return subprocess.Popen(
            [sys.executable, "-m", "alloc_es.cli", *arguments],
            env=self._environment(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def shell(self, script: str) -> Done:
        """Run a line of a shell in which `alloc-es` is the command."""
        done = subprocess.run(
            ["bash", "-c", f'alloc-es() {{ "{sys.executable}" -m alloc_es.cli "$@"; }}; {script}'],
            env=self._environment({"PYTHONUNBUFFERED": ""}),
            capture_output=True,
            text=True,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def _as_command(
        self, arguments: tuple[str, ...], environment: dict[str, str]
    ) -> Iterator[None]:
        with (
            mock.patch.object(sys, "argv", ["alloc-es", *arguments]),
            mock.patch.dict(os.environ, self._environment(environment), clear=True),
        ):
            yield

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        others = {k: v for k, v in os.environ.items() if not k.startswith("ALLOC_ES_")}
        return {**others, "ALLOC_ES_STORE": self.store, "ALLOC_ES_ACTOR": "operator", **more}

    def ok(self, *arguments: str) -> str:
        """What a command prints that must succeed and say nothing on stderr."""
        done = self.run(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def json(self, *arguments: str) -> Any:
        """The JSON document that a command prints that must succeed."""
        return json.loads(self.ok(*arguments, "--json"))

    def fails(self, code: int, *arguments: str) -> str:
        """The one line on stderr of a command that must fail with a code."""
        done = self.run(*arguments)
        assert done.returncode == code, done
        assert done.stdout == ""
        assert done.stderr.startswith("alloc-es: ")
        assert done.stderr.count("\n") == 1
        return done.stderr

    def error(self, code: int, *arguments: str) -> Any:
        """The JSON error of a command that must fail with a code."""
        done = self.run(*arguments, "--json")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done
        error = json.loads(done.stderr)["error"]
        assert error["exit_code"] == code
        return error


def until_closed(screen: io.RawIOBase) -> bytes:
    """What a terminal is sent until the last process has closed its end."""
    seen = b""
    # Linux fails with EIO then, others read nothing.
    with suppress(OSError):
        while part := screen.read(65_536):
            seen += part
    return seen
