"""The benchmark itself: it runs, it is fair in its order, and it writes where it says."""

import gc
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from tests.bench import __main__ as bench
from tests.bench import peers
from tests.bench.cases import cases
from tests.bench.crew import Crew
from tests.bench.goals import AsFast, AtMost, Goal, Within
from tests.bench.measuring import Case, Contender, Measure, measure, own_garbage
from tests.bench.reporting import BEGIN, DOCUMENT, END, table, write_document
from tests.bench.rivals import CHALLENGER, CURRENT
from tests.bench.scale import QUICK
from tests.bench.stores import Stores
from tests.support.postgres import PostgresServer

ROOT = Path(__file__).parents[2]


@pytest.mark.sqlite
@pytest.mark.postgresql
@pytest.mark.timeout(300)
def test_a_quick_run_measures_every_case_and_leaves_the_documentation_alone() -> None:
    """Red when a rival no longer fits the API, or a quick run writes the document."""
    before = DOCUMENT.read_bytes()

    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)["cases"]
    assert [(case["name"], _names(case)) for case in found] == _expected()
    for contender in (each for case in found for each in case["contenders"]):
        assert len(contender["values"]) in (QUICK.repetitions, 1)
        assert 0 <= contender["min"] <= contender["median"] <= contender["max"]
    assert DOCUMENT.read_bytes() == before


def test_repetitions_are_interleaved_and_the_first_round_is_not_counted() -> None:
    """Red when a contender's repetitions are taken in one go, or the warm-up is kept."""
    calls: list[str] = []
    case = Case(
        "which is slower", "ms", (_scripted("a", calls, 1, 2, 3), _scripted("b", calls, 1, 2, 3))
    )

    outcome = measure(case, 2, lambda _: None)

    assert calls == ["a", "b", "a", "b", "a", "b"]
    assert [figure.values for figure in outcome.figures] == [(2.0, 3.0), (2.0, 3.0)]
    assert [figure.ratios for figure in outcome.figures] == [(1.0, 1.0), (1.0, 1.0)]


def test_no_garbage_is_collected_while_a_contender_is_measured() -> None:
    """Red when a contender can be charged with the collection of what others left behind."""
    found: list[bool] = []

    @contextmanager
    def opened() -> Iterator[Measure]:
        def measured() -> float:
            found.append(gc.isenabled())
            return 1.0

        yield measured

    measure(Case("which is slower", "ms", (Contender("a", opened),)), 2, lambda _: None)

    assert (found, gc.isenabled()) == ([False] * 3, True)


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        (AtMost("b", "a", 1), "b at most 1 × a; met at 1.00 ×"),
        (AtMost("b", "a", 0.9), "b at most 0.9 × a; **missed** at 1.00 ×"),
        (AsFast("a", ["b"], 1), "a at least 1 × as fast as b; met at 1.00 ×"),
        (AsFast("c", ["a", "b"], 3), "c at least 3 × as fast as the fastest of"),
        (AsFast("c", ["a", "b"], 2), "; met at 2.00 ×"),
        (AsFast("c", ["a", "b"], 2.1), "; **missed** at 2.00 ×"),
        (Within("b", 9, "ms"), "b within 9 ms; met at 9 ms in the worst round"),
        (Within("b", 8.9, "ms"), "b within 8.9 ms; **missed** at 9 ms in the worst round"),
    ],
)
def test_a_goal_is_shown_with_what_became_of_it(goal: Goal, verdict: str) -> None:
    """Red when a missed goal is shown as met, or a disturbed figure makes one missed."""
    contenders = (
        _scripted("a", [], 1, 2, 3, 4),
        _scripted("b", [], 1, 9, 2, 9),
        _scripted("c", [], 9, 1, 9, 9),
    )
    case = Case("which is slower", "ms", contenders, (goal,))

    assert verdict in table(measure(case, 3, lambda _: None))


def test_of_rates_the_largest_are_the_best() -> None:
    """Red when a rate's goal is judged by the round that was disturbed most."""
    contenders = _scripted("a", [], 1, 60, 20), _scripted("b", [], 1, 20, 30)
    case = Case("which is slower", "runs/s", contenders, (AsFast("a", ["b"], 2),))

    assert "; met at 2.00 ×" in table(measure(case, 2, lambda _: None))


def test_a_single_round_has_no_other_to_warm_up() -> None:
    """Red when a case that takes a minute is measured again for nothing."""
    calls: list[str] = []
    case = Case("which is larger", "MB", (_scripted("a", calls, 5),), rounds=1)

    assert [figure.values for figure in measure(case, 7, lambda _: None).figures] == [(5,)]
    assert calls == ["a"]


def test_a_contender_that_pays_for_its_own_garbage_leaves_the_others_without() -> None:
    """Red when the collector stays on for those who are measured next."""
    with own_garbage():
        assert gc.isenabled()
    on_afterwards = gc.isenabled()
    gc.enable()
    assert not on_afterwards


def test_peers_that_are_not_installed_are_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Red when a development install, which has no peers, can't run the benchmark."""
    monkeypatch.setattr(peers, "find_spec", lambda _: None)

    case = peers.routing(QUICK)

    assert case.note.endswith("not installed: growthbook, yggdrasil-engine, openfeature-sdk")
    assert [each.name for each in case.contenders if "alloc-es" not in each.name] == [peers.BUCKET]
    assert len(case.goals) == 1


@pytest.mark.parametrize("peer", peers.PEERS, ids=lambda peer: peer.package)
def test_a_peer_that_is_installed_splits_as_it_is_asked_to(
    peer: peers.Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a peer answers with its default, which takes no time, or uses the network."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a peer uses the network")

    monkeypatch.setattr(socket, "socket", refused)
    if find_spec(peer.module):
        choose = peer.opened()
        chosen, again = ([choose(f"customer-{n}") for n in range(4_000)] for _ in range(2))
        assert chosen == again
        assert set(chosen) == {CURRENT, CHALLENGER}
        assert 120 < chosen.count(CHALLENGER) < 280


def test_the_tables_replace_what_is_between_the_markers(tmp_path: Path) -> None:
    """Red when a second run adds its tables to the first one's."""
    document = tmp_path / "performance.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    write_document("new", document)
    write_document("newer \\1", document)

    assert document.read_text() == f"before\n{BEGIN}\n\nnewer \\1\n\n{END}\nafter\n"


def test_a_part_of_the_cases_leaves_the_documentation_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Red when a run of some cases replaces the tables of all."""
    written: list[str] = []
    monkeypatch.setattr(bench, "run", lambda **_: ([], {}))
    monkeypatch.setattr(bench, "write_document", written.append)

    assert bench.main(["--only", "no such case"]) == 1
    assert written == []
    bench.main([])
    assert len(written) == 1


@pytest.mark.postgresql
def test_a_durable_server_waits_for_the_disk() -> None:
    """Red when `durable` leaves fsync, full_page_writes or synchronous_commit off."""
    with PostgresServer(durable=True) as server, psycopg.connect(server.url) as connection:
        names = ("fsync", "full_page_writes", "synchronous_commit")
        found = [connection.execute(f"SHOW {name}").fetchone() for name in names]
    assert found == [("on",)] * 3


def _scripted(name: str, calls: list[str], *taken: float) -> Contender:
    """A contender that takes these times and notes when it is asked."""

    @contextmanager
    def opened() -> Iterator[Measure]:
        values = iter(taken)

        def measured() -> float:
            calls.append(name)
            return next(values)

        yield measured

    return Contender(name, opened)


def _expected() -> list[tuple[str, list[str]]]:
    def unused() -> Callable[[], None]:
        raise AssertionError("nothing is opened here")

    stores = [Stores(kind, "", *(6 * (unused,)), "") for kind in ("PostgreSQL", "SQLite")]  # type: ignore[arg-type]
    with Crew(0) as nobody:
        return [
            (case.name, [contender.name for contender in case.contenders])
            for case in cases(stores, nobody, QUICK)
        ]


def _names(case: dict[str, list[dict[str, str]]]) -> list[str]:
    return [contender["name"] for contender in case["contenders"]]
