"""Drills with processes and a server that really break: each fault happens, nothing is found."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import alloc_es
from alloc_es.drill import faults as faults_module
from alloc_es.drill.drill import drill
from alloc_es.drill.plan import FaultKind
from alloc_es.drill.settings import Settings
from alloc_es.drill.verdict import Verdict
from tests.support.postgres import PostgresServer
from tests.support.restarting import restart_command

HALF_A_STEP = timedelta(minutes=30)


def check(verdict: Verdict, faults: Mapping[FaultKind, int]) -> None:
    """Every round was played, nothing was found, and the faults have happened, no more of them."""
    assert verdict.problems == ()
    assert set(verdict.faults) == set(faults)
    assert all(count <= faults[kind] for kind, count in verdict.faults.items())
    for score in verdict.scores.values():
        ended = score.won, score.lost, score.unchanged, score.refused, score.unsettled
        assert sum(ended) == verdict.rounds


def test_processes_that_are_killed_on_sqlite_lose_nothing(sqlite_url: str) -> None:
    """Red when a kill kills nobody, the dead have no successor, or a clock does not step."""
    alloc_es.connect(sqlite_url).close()
    faults: dict[FaultKind, int] = {"kill": 4, "pause": 1, "clock step": 3}
    verdict = drill(Settings(url=sqlite_url, rounds=10, faults=faults, seed=4))
    check(verdict, faults)
    assert verdict.restarted > 0
    assert verdict.restarted <= verdict.faults["kill"]
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
        begun = connection.execute("SELECT sum(incarnation), count(*) FROM participants")
        incarnations, names = begun.fetchone()
    assert incarnations >= names + verdict.restarted
    now = datetime.now(UTC)
    with alloc_es.connect(sqlite_url) as allocations:
        times = [each.event.recorded_at for each in allocations.decisions()]
        times += [each.event.recorded_at for each in allocations.runs()]
    assert any(abs(time - now) > HALF_A_STEP for time in times)


def test_a_full_disk_on_sqlite_loses_nothing(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the disk is not full, or stays so."""
    # Longer than a scheduler that hardly gets to run takes to begin.
    monkeypatch.setattr(faults_module, "_FULL_FOR", 1.5)
    alloc_es.connect(sqlite_url).close()
    faults: dict[FaultKind, int] = {"full disk": 1}
    settings = Settings(
        url=sqlite_url, rounds=4, faults=faults, timeout=0.1, schedulers=1, spawners=1, seed=3
    )
    verdict = drill(settings)
    check(verdict, faults)
    assert verdict.faults == faults
    assert verdict.scores["scheduler-1"].refused + verdict.settled > 0
    assert verdict.scores["scheduler-1"].won > 0


def test_connections_that_are_broken_on_postgresql_lose_nothing(postgres_url: str) -> None:
    """Red when no reply is lost, no connection is cut or ended, or doubt is not settled."""
    alloc_es.connect(postgres_url).close()
    faults: dict[FaultKind, int] = {
        "kill": 1,
        "lost reply": 4,
        "cut": 2,
        "delay": 1,
        "termination": 2,
        "crowd": 1,
    }
    verdict = drill(Settings(url=postgres_url, rounds=10, faults=faults, seed=1))
    check(verdict, faults)


def test_a_server_that_is_restarted_is_back_in_service() -> None:
    """Red when the server was not restarted, or a client has to be."""
    faults: dict[FaultKind, int] = {"restart": 1}
    with PostgresServer() as server, restart_command(server) as command:
        alloc_es.connect(server.url).close()
        began = started_at(server)
        settings = Settings(url=server.url, rounds=4, faults=faults, restart=command, mode="thread")
        verdict = drill(settings)
        assert started_at(server) > began
    check(verdict, faults)
    assert verdict.faults == faults
    assert (len(verdict.outages), verdict.restarted) == (1, 0)


def started_at(server: PostgresServer) -> datetime:
    with psycopg.connect(server.url) as connection:
        row = connection.execute("SELECT pg_postmaster_start_time()").fetchone()
    assert row
    moment: datetime = row[0]
    return moment
