"""`alloc-es drill`, as a person runs it."""

import json
import re
import signal
from typing import Any

import pytest

import alloc_es
from alloc_es.drill.drill import drill as play
from alloc_es.drill.errors import RestartFailed
from alloc_es.drill.settings import Settings
from alloc_es.drill.verdict import Verdict
from alloc_es.harness import ParticipantNotStarted
from alloc_es.harness.runners import ProcessRunner
from tests.cli.terminal import Terminal

REMAINS = re.compile("; the drill's tenant is drill-[0-9a-f]{12}, which the read models leave out$")
QUICK = ("drill", "--mode", "thread", "--rounds", "6")


@pytest.fixture
def sqlite(sqlite_url: str) -> Terminal:
    alloc_es.connect(sqlite_url).close()
    return Terminal(sqlite_url)


def test_a_drill_that_finds_nothing_says_so_and_what_was_tried(durable_url: str) -> None:
    """Red when a count is missing, a drill that was passed does not end with 0, or a pipe
    gets the bar.
    """
    alloc_es.connect(durable_url).close()
    said = Terminal(durable_url).ok(*QUICK, "--seed", "3", "--schedulers", "3")
    head, *scores = said.splitlines()[:4]
    assert head.split() == ["SCHEDULER", "WON", "LOST", "UNCHANGED", "REFUSED", "UNSETTLED"]
    assert [line.split()[0] for line in scores] == ["scheduler-1", "scheduler-2", "scheduler-3"]
    assert sum(int(line.split()[1]) for line in scores) == 6
    assert "commands that lost to another one 12, of them at the commit " in said
    assert "runs 95, routed again behind a decision " in said
    assert "faults: 1 of 1 × clock step, 1 of 1 × crowd\n" in said
    assert "\nlost 0, doubled 0\n" in said
    assert re.search(r"tenant drill-[0-9a-f]{12}, thread\n", said)
    assert said.splitlines()[-1].startswith("no finding in 6 rounds on ")
    assert said.endswith(", seed 3\n")


def test_a_verdict_is_one_document_in_json(sqlite: Terminal) -> None:
    """Red when the document lacks a field of the verdict, or anything else is printed."""
    verdict = sqlite.json(*QUICK, "--faults", "2")
    assert set(verdict) == {"passed", "lost", "doubled", *Verdict.__dataclass_fields__}
    assert (verdict["lost"], verdict["doubled"]) == (0, 0)
    assert (verdict["passed"], verdict["rounds"], verdict["problems"]) == (True, 6, [])
    assert verdict["seconds"] == round(verdict["seconds"], 3)
    assert verdict["planned"] == verdict["faults"] == {"clock step": 2, "crowd": 2}
    assert verdict["scores"]["scheduler-1"]["won"] + verdict["scores"]["scheduler-2"]["won"] == 6


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every drill be on a store that acknowledges what it does not keep."""

    def spoiled(**keywords: Any) -> Settings:
        return Settings(**keywords, opener="tests.drill.broken:decisions_swallowed")

    monkeypatch.setattr("alloc_es.cli.drilling.Settings", spoiled)


@pytest.mark.usefixtures("broken")
def test_findings_end_it_with_6_and_each_is_told(sqlite: Terminal) -> None:
    """Red when findings are not told with their promise, or the exit code is that of success."""
    done = sqlite.run(*QUICK)
    assert done.returncode == 6
    found = [line for line in done.stdout.splitlines() if line.startswith("FOUND: ")]
    assert any(
        "(acknowledged: Every decision that was acknowledged is in" in line for line in found
    )
    assert f"{len(found)} findings in 6 rounds on " in done.stdout
    assert re.fullmatch(
        r"alloc-es: promises were broken; keep the log of tenant drill-[0-9a-f]{12} as evidence\n",
        done.stderr,
    )


def test_who_decides_on_all_tenants_is_told_from_a_broken_store(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a stranger's decision is called the database's fault, or is no finding."""

    def beside_others(settings: Settings, *, on_round: Any, **others: Any) -> Verdict:
        def decide_on_all(done: int) -> None:
            on_round(done)
            if done == 6:
                with alloc_es.connect(sqlite.store, actor="sweeper") as allocations:
                    for each in allocations.list():
                        assert each.challenger
                        allocations.workflow(*each.key).commit_allocation({each.challenger: 9_999})

        return play(settings, on_round=decide_on_all, **others)

    monkeypatch.setattr("alloc_es.cli.drilling.play", beside_others)
    done = sqlite.run(*QUICK)
    assert done.returncode == 6
    found = [line for line in done.stdout.splitlines() if line.startswith("FOUND: ")]
    assert [re.sub("drill-[0-9a-f]{12}", "drill-1", line.partition(" (")[0]) for line in found] == [
        "FOUND: sweeper decided on drill-1/workflow-1, 1 time",
        "FOUND: sweeper decided on drill-1/workflow-2, 1 time",
    ]
    assert "2 findings in 6 rounds on " in done.stdout
    assert "somebody else wrote to the drill's tenant, so it proves nothing" in done.stderr
    assert "promises were broken" not in done.stderr


@pytest.mark.usefixtures("broken")
def test_findings_are_in_the_document_too(sqlite: Terminal) -> None:
    """Red when a script can't tell what was found."""
    done = sqlite.run(*QUICK, "--json")
    verdict, error = json.loads(done.stdout), json.loads(done.stderr)["error"]
    assert (done.returncode, verdict["passed"]) == (6, False)
    assert {"rule", "text", "problem"} == set(verdict["problems"][0])
    assert (error["type"], error["findings"]) == ("DrillFailed", len(verdict["problems"]))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--mode", "thread", "--kill"), "--kill can befall processes only; use --mode process"),
        (("--pause", "--mode", "in_process"), "--pause can befall processes only"),
        (("--drop-replies",), "--drop-replies can befall PostgreSQL only; use --store postgresql:"),
        (("--break-connections",), "--break-connections can befall PostgreSQL only"),
        (("--restart", "true"), "--restart can befall PostgreSQL only"),
        (
            ("--fill-disk", "--store", "postgresql://db"),
            "--fill-disk can befall a SQLite file only",
        ),
        (("--mode", "fibre"), "--mode: 'fibre' is none of in_process, thread, process; see"),
        (("--kill", "--rounds", "1"), "the first round has no faults; give it two or more"),
        (("--rounds", "0"), "rounds"),
        (("--faults", "-1"), "--faults: -1 is no count; see"),
        (("--store", "memory:"), "in memory"),
    ],
)
def test_what_can_t_be_done_is_a_usage_error(
    sqlite: Terminal, arguments: tuple[str, ...], problem: str
) -> None:
    """Red when a drill begins that can't be what was asked for, or ends with a traceback."""
    assert problem in sqlite.fails(2, "drill", *arguments)


def test_a_store_that_is_not_there_is_reported_and_not_created(durable_url: str) -> None:
    """Red when a mistyped store comes to be."""
    said = Terminal(durable_url).fails(4, *QUICK)
    assert "alloc-es init" in said
    with pytest.raises(alloc_es.StoreUnavailable):
        alloc_es.connect(durable_url, migrate=False)


@pytest.mark.parametrize(
    "error",
    [
        RestartFailed("restart-it", "exit code 3: no such unit"),
        ParticipantNotStarted("drill-1-scheduler-1", 1, "it was not ready in 60 s"),
    ],
)
def test_what_ends_a_drill_early_is_one_line(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch, error: alloc_es.AllocationError
) -> None:
    """Red when an error has no exit code, or comes as a traceback."""

    def fail(*_: Any, **__: Any) -> Verdict:
        raise error

    monkeypatch.setattr("alloc_es.cli.drilling.play", fail)
    assert sqlite.fails(4, *QUICK) == f"alloc-es: {error}\n"
    assert sqlite.error(4, *QUICK)["type"] == type(error).__name__


def test_what_ends_a_drill_early_names_its_tenant(
    sqlite: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when nobody is told what is left in the store, or the error has another exit code."""

    def fail(settings: Settings, **_: Any) -> Verdict:
        def stop(_: int) -> None:
            raise RestartFailed("restart-it", "exit code 3")

        return play(settings, on_round=stop)

    monkeypatch.setattr("alloc_es.cli.drilling.play", fail)
    error = sqlite.error(4, *QUICK)
    assert error["error"]["type"] == "RestartFailed"
    assert "the restart by `restart-it` failed: exit code 3; " in error["message"]
    assert REMAINS.search(error["message"])


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[ProcessRunner]:
    """The processes of participants that were started."""
    started = list[ProcessRunner]()
    begin = ProcessRunner.__init__

    def noted(self: ProcessRunner, *arguments: Any) -> None:
        begin(self, *arguments)
        started.append(self)

    monkeypatch.setattr(ProcessRunner, "__init__", noted)
    return started


@pytest.mark.parametrize(
    ("number", "code", "mode"),
    [(signal.SIGINT, 130, "process"), (signal.SIGTERM, 143, "thread")],
    ids=["ctrl-c", "sigterm"],
)
def test_a_signal_ends_a_drill_with_one_line_and_nothing_behind(
    sqlite: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    children: list[ProcessRunner],
    number: signal.Signals,
    code: int,
    mode: str,
) -> None:
    """Red when it is a traceback, leaves a process, or the drill stays in the read models."""

    def interrupted(settings: Settings, *, on_round: Any, **others: Any) -> Verdict:
        def sent(done: int) -> None:
            on_round(done)
            if done == 3:
                signal.raise_signal(number)

        return play(settings, on_round=sent, **others)

    monkeypatch.setattr("alloc_es.cli.drilling.play", interrupted)
    done = sqlite.run(*QUICK, "--mode", mode)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(
        "alloc-es: interrupted: the drill was ended in mid-round, and nothing was checked; "
    )
    assert REMAINS.search(done.stderr.removesuffix("\n"))
    assert done.stderr.count("\n") == 1
    assert len(children) == (3 if mode == "process" else 0)
    assert all(child.exit_code is not None for child in children)
    with alloc_es.connect(sqlite.store) as allocations:
        allocations.projections().catch_up()
        assert allocations.projections().rows("current_split") == []


def test_a_restart_command_that_fails_ends_the_drill_and_its_processes(
    postgres_url: str, children: list[ProcessRunner]
) -> None:
    """Red when the drill goes on without its server, or leaves its processes there."""
    alloc_es.connect(postgres_url).close()
    command = "echo 'no such unit' >&2; exit 3"
    said = Terminal(postgres_url).fails(4, "drill", "--rounds", "3", "--restart", command)
    assert f"the restart by `{command}` failed: exit code 3: no such unit" in said
    assert len(children) == 3
    assert all(child.exit_code is not None for child in children)


def test_drills_are_told_by_their_number_and_decided_on_by_name_only(sqlite: Terminal) -> None:
    """Red when a pass over all tenants takes drills', or they hide which tenants are left out."""
    verdicts = [sqlite.json(*QUICK, "--rounds", "1") for _ in range(2)]
    sqlite.ok("start", "acme", "triage", "v1")
    sqlite.ok("projections", "purge", "run_ledger", "acme")
    said = sqlite.run("projections", "status").stdout
    assert "run_ledger leaves out: acme, 2 tenants of drills" in said
    assert "current_split leaves out: 2 tenants of drills" in said
    decide = ("decide", "--policy", "tests.cli.policies:try_v2", "--dry-run")
    assert sqlite.run(*decide, "--all").stdout.count("\n") == 1
    assert sqlite.run(*decide, verdicts[0]["tenant"]).stdout.count("\n") == 2
