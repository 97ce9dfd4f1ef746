"""The tests' own PostgreSQL server: it runs, it keeps its data, it leaves nothing behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal

import psycopg
import pytest

from tests.support.postgres import PostgresServer

DIE_WITH_A_RUNNING_SERVER = """
import os, signal
from tests.support.postgres import PostgresServer

server = PostgresServer()
server.start()
print(server.pid, server.home, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_shared_server_reports_its_version_and_speaks_utf8(postgres_url: str) -> None:
    """Red when initdb is left to take the encoding from the locale."""
    server_url, _, _ = postgres_url.partition("&schema=")
    with psycopg.connect(server_url) as connection:
        assert connection.info.server_version >= 140000
        assert _setting(connection, "server_encoding") == "UTF8"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_data_and_url_survive_a_restart(mode: Literal["fast", "immediate"]) -> None:
    """Red when a start always makes a new cluster."""
    with PostgresServer() as server:
        url = server.url
        _execute(url, "CREATE TABLE kept AS SELECT 42 AS answer")

        server.restart(mode)

        assert server.url == url
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT answer FROM kept").fetchall() == [(42,)]


def test_a_server_listens_on_no_port_and_leaves_no_directory() -> None:
    """Red when `listen_addresses` keeps its default, or the watchdog no longer removes `home`."""
    with PostgresServer() as server, psycopg.connect(server.url) as connection:
        assert _setting(connection, "listen_addresses") == ""
    assert not server.home.exists()


def test_a_killed_test_run_leaves_neither_server_nor_directory() -> None:
    """Red when the watchdog is not told the pid, or does not end the server."""
    # The watchdog holds the child's stdout, so this returns once both have ended.
    died = subprocess.run(
        [sys.executable, "-c", DIE_WITH_A_RUNNING_SERVER],
        stdout=subprocess.PIPE,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    pid, home = died.stdout.decode().split()

    assert died.returncode == -signal.SIGKILL
    assert not Path(home).exists()
    assert not _is_running(int(pid))


def test_a_spawned_process_imports_the_helpers_of_the_tests() -> None:
    """Red without `tests/__init__.py`, by which pytest puts the repository on the path."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_module_name) == "tests.test_support_postgres"


def _module_name() -> str:
    return __name__


def _setting(connection: psycopg.Connection, name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement.encode())


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Where nobody reaps orphans, a process that has ended stays in the table as a zombie.
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
