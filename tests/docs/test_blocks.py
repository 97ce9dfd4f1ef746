"""Every example in the documentation runs, top to bottom, and gives what it shows."""

import os
import re
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.docs.documents import Block, blocks, documents, name
from tests.docs.pythonblocks import matches, run_python
from tests.support import warm

RUNNABLE = {"python", "console", "sql"}
NOT_RUN = {"text", "json", "mermaid", "toml"}
DATABASE = "alloc.db"
POSTGRES_URL = re.compile(r"(?P<driver>psycopg\.connect\([\"'])?(?P<url>postgresql://[^\s\"'`]+)")
POSTGRES_TABLE = re.compile(r"\balloc_es(?=\.(?:decision_events|run_events|current_split)\b)")
POOLER = re.compile(r"[?&](pooler=\w+)")
INSTALLED = Path(sys.executable).parent
FROM_ITS_START = {"docs/tutorial/first-allocation.md"}
"""Documents whose `alloc-es` is the installed one; that of the others starts sooner."""
ROLES = ("alloc_app", "alloc_archivist", "alloc_auditor", "alloc_dashboard", "alloc_projector")
SECONDS = 60


def runnable(path: Path) -> list[Block]:
    return [block for block in blocks(path) if block.language in RUNNABLE]


def needs_postgres(path: Path) -> bool:
    return any(
        block.dialect == "postgresql" or POSTGRES_URL.search(block.text) for block in runnable(path)
    )


def parameters() -> list[Any]:
    return [
        pytest.param(path, id=name(path), marks=pytest.mark.postgresql)
        if needs_postgres(path)
        else pytest.param(path, id=name(path))
        for path in documents()
        if runnable(path)
    ]


class Reader:
    """Somebody who does what a document says, block by block, in an empty directory."""

    def __init__(self, postgres_url: str | None, commands: Path) -> None:
        self._postgres_url = postgres_url
        mark = uuid.uuid4().hex[:12]
        self._roles = {role: f"{role}_{mark}" for role in ROLES}
        self._namespace: dict[str, Any] = {"__name__": "__main__"}
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("ALLOC_ES_")},
            "PATH": os.pathsep.join(map(str, [commands, INSTALLED, os.environ["PATH"]])),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TERM": "dumb",
        }

    def follow(self, block: Block) -> None:
        """Do what a block says and compare what comes out with what it shows."""
        how: dict[tuple[str, str], Callable[[Block], None]] = {
            ("python", ""): self._python,
            ("console", ""): self._console,
            ("sql", "sqlite"): self._sqlite,
            ("sql", "postgresql"): self._postgresql,
        }
        assert (block.language, block.dialect) in how, f"{block.where}: who runs this?"
        how[block.language, block.dialect](block)

    def clean_up(self) -> None:
        """Remove the roles that a document had the server make."""
        if self._postgres_url is None:
            return
        with psycopg.connect(server_of(self._postgres_url), autocommit=True) as connection:
            known = "SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)"
            made = connection.execute(known, [list(self._roles.values())]).fetchall()
            for (role,) in made:
                connection.execute(f"DROP OWNED BY {role} CASCADE")
            for (role,) in made:
                connection.execute(f"DROP ROLE {role}")

    def _python(self, block: Block) -> None:
        run_python(block, self._with_own_server(block.text), self._namespace)

    def _console(self, block: Block) -> None:
        status = 0
        for command, shown in _commands(block.text):
            if command.startswith("export "):
                key, _, value = command.removeprefix("export ").partition("=")
                self._environment[key] = self._with_own_server(value.strip("'\""))
            elif command == "echo $?":
                assert shown == [str(status)], f"{block.where}: the exit code was {status}"
                status = 0
            else:
                assert status == 0, f"{block.where}: {status} in front of {command!r}"
                status = self._shell(block, command, shown)
        assert status == 0, f"{block.where}: the last command exited with {status}"

    def _shell(self, block: Block, command: str, shown: list[str]) -> int:
        done = subprocess.run(
            ["bash", "-c", self._with_own_server(command)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        found = [line.rstrip() for line in done.stdout.splitlines()]
        if shown:
            expected = "\n".join(shown)
            assert matches(expected, "\n".join(found)), (
                f"{block.where}: {command}\nshown:\n{expected}\nfound:\n{done.stdout}"
            )
        elif done.returncode:
            assert f"$ {command}\n$ echo $?" in block.text, f"{block.where}: {done.stdout}"
        return done.returncode

    def _sqlite(self, block: Block) -> None:
        assert Path(DATABASE).exists(), f"{block.where}: no block before it made {DATABASE}"
        with closing(sqlite3.connect(DATABASE)) as connection:
            for statement, shown in _statements(block.text):
                _compare(block, shown, connection.execute(statement).fetchall())

    def _postgresql(self, block: Block) -> None:
        assert self._postgres_url is not None
        schema = schema_of(self._postgres_url)
        with psycopg.connect(server_of(self._postgres_url), autocommit=True) as connection:
            for statement, shown in _statements(block.text):
                own = re.sub(r"\balloc_es\b", schema, statement)
                for role, own_role in self._roles.items():
                    own = re.sub(rf"\b{role}\b", own_role, own)
                cursor = connection.execute(own)
                _compare(block, shown, cursor.fetchall() if cursor.description else [])

    def _with_own_server(self, text: str) -> str:
        """The text with this test's server, schema and role in place of the document's."""
        if self._postgres_url is None:
            return text
        url = self._postgres_url
        text = POSTGRES_TABLE.sub(schema_of(url), text)

        def own(match: re.Match[str]) -> str:
            role = self._roles.get(urlsplit(match["url"]).username or "")
            login = f"&user={role}" if role else ""
            driver = match["driver"]
            pooler = POOLER.search(match["url"])
            ours = f"{url}&{pooler[1]}" if pooler else url
            return f"{driver}{server_of(url)}{login}" if driver else f"{ours}{login}"

        return POSTGRES_URL.sub(own, text)


def schema_of(url: str) -> str:
    return parse_qs(urlsplit(url).query)["schema"][0]


def server_of(url: str) -> str:
    """A store's URL without what only alloc-es reads."""
    return re.sub(r"[?&]schema=\w+", "", url)


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each `$ command`, `\\` continued, and the lines that it shows."""
    command, shown = "", list[str]()
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], []
        elif command.endswith("\\"):
            command = f"{command[:-1]}{line.strip()}"
        else:
            shown.append(line.rstrip())
    yield command, shown


def _statements(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each statement up to its `;`, and the rows it shows as `-- → …`."""
    statement, shown = "", list[str]()
    for line in text.splitlines(keepends=True):
        if line.startswith("-- → "):
            shown.append(line.removeprefix("-- → ").strip())
            continue
        if statement.rstrip().endswith(";") and line.strip():
            yield statement, shown
            statement, shown = "", []
        statement += line
    yield statement, shown


def _compare(block: Block, shown: list[str], rows: list[Any]) -> None:
    found = [_row(values) for values in rows]
    if shown:
        expected = "\n".join(shown)
        assert matches(expected, "\n".join(found)), f"{block.where}: {expected!r} is {found}"


def _row(values: tuple[Any, ...]) -> str:
    return " | ".join("" if value is None else str(value) for value in values).rstrip()


@pytest.mark.parametrize("path", parameters())
def test_a_document_does_what_it_says(
    path: Path,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Red when an example fails, or gives something else than the document shows."""
    url = request.getfixturevalue("postgres_url") if needs_postgres(path) else None
    monkeypatch.chdir(tmp_path)
    commands = tmp_path_factory.mktemp("commands")
    if name(path) not in FROM_ITS_START:
        warm.put_into(commands)
    reader = Reader(url, commands)
    try:
        for block in runnable(path):
            reader.follow(block)
    finally:
        reader.clean_up()


def test_every_block_says_what_it_is() -> None:
    """Red when a block has no language, or one that is neither run nor known as not run."""
    unknown = [
        block.where
        for path in documents()
        for block in blocks(path)
        if block.language not in RUNNABLE | NOT_RUN
    ]
    assert unknown == []
