"""Several processes find what one finds, and none of them is left behind, however it ends."""

import json
import multiprocessing.connection
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from alloc_es import InvalidSetting, Recorded, StoreUnavailable, connect
from alloc_es.audit import AuditorLost, AuditReport, audit, workers
from alloc_es.audit.run_pass import Scope
from alloc_es.audit.workers import Assignment, checked_by_processes
from alloc_es.cli.audit_report import audit_document
from alloc_es.rules import RULES
from tests.audit.forging import Copy, file_of, found
from tests.audit.given import Logs, rows
from tests.audit.test_seals import sealed
from tests.rules.given import stored
from tests.support.effort import effort

PATIENCE_SECONDS = 120
STRIDE = 2_500
"""So that the runs lie in five parts."""


class Processes:
    """Stands in for `subprocess` in the module that starts them, and remembers each."""

    DEVNULL = subprocess.DEVNULL

    def __init__(self) -> None:
        self.all: list[subprocess.Popen[bytes]] = []
        self.dead_at_once = False

    def Popen(self, *arguments: Any, **keywords: Any) -> subprocess.Popen[bytes]:
        started: subprocess.Popen[bytes] = subprocess.Popen(*arguments, **keywords)
        self.all.append(started)
        if self.dead_at_once:
            started.kill()
            started.wait()
        return started

    def kill(self) -> None:
        for each in self.all:
            each.kill()

    @property
    def left(self) -> int:
        return sum(each.poll() is None for each in self.all)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    started = Processes()
    monkeypatch.setattr(workers, "subprocess", started)
    return started


@pytest.fixture
def parts(sqlite_url: str, logs: Logs) -> str:
    """A store whose runs lie in many parts."""
    connect(sqlite_url).close()
    Copy(sqlite_url).hold(logs.spread(10 * STRIDE))
    return sqlite_url


def text_of(report: AuditReport) -> str:
    """The JSON of a report, but for its time."""
    return json.dumps(audit_document(report, 0.0))


def test_two_processes_report_to_the_byte_what_one_does(
    postgres_url: str, logs: Logs, processes: Processes
) -> None:
    """Red when what lies in two parts is put together otherwise than in one.

    A unit whose runs lie in two parts, a run id that was given out in two, a break in each,
    blocks of a seal, and rows that are no events.
    """
    connect(postgres_url).close()
    copy, spread = Copy(postgres_url), logs.spread(STRIDE)
    units = [each.event.unit for each in spread.runs]
    sticky = [n for n, unit in enumerate(units) if unit.startswith("customer")]
    assert {spread.runs[n].position // 50_000 for n in sticky} == {3, 4}
    copy.hold(logs)
    samples = copy.audited().samples
    copy.hold(spread)
    assert copy.audited().samples == samples
    seal = sealed(copy.url)
    fields = {"run_id": spread.runs[5].event.run_id}
    again = stored(spread.runs[-1].position + 7, spread.runs[-1].event.model_copy(update=fields))
    forged = spread.run(30, bucket=1).run(60, decision_position=14).run(80, actor="eve")
    forged = forged._replace(runs=[*forged.runs, again])
    runs = rows(forged.runs)
    runs[50] = runs[50]._replace(state=b"{}")
    decisions = rows(forged.decisions)
    decisions[logs.place(10)] = decisions[logs.place(10)]._replace(state=b"{}")
    copy.write(decisions, runs)
    one = copy.audited(seals=[seal])
    assert processes.all == []
    two = copy.audited(seals=[seal], processes=2)
    assert len(processes.all) == 2
    assert processes.left == 0
    assert text_of(two) == text_of(one)
    broken = {each.rule for each in found(one)}
    assert broken == {"readable", "routing", "newest", "run_ids", "seal"}
    places = [each.position or 0 for each in found(one) if each.log == "runs"]
    assert {position // 50_000 for position in places} >= {1, 2, 3, 4}


def test_more_than_a_thousand_findings_are_counted_and_the_first_kept(
    sqlite_url: str, logs: Logs
) -> None:
    """Red when the findings of later parts take the place of earlier ones, or go uncounted."""
    connect(sqlite_url).close()
    copy = Copy(sqlite_url)
    samples = logs.runs[:3]
    runs = [
        Recorded(60 * place, run, samples[0].digest)
        for place in range(1, 1_201)
        for run in [samples[0].event.model_copy(update={"run_id": f"r{place}", "bucket": -1})]
    ]
    copy.hold(logs._replace(runs=runs))
    report = copy.audited()
    (rule,) = (each for each in report.rules if each.outcome == "broken")
    assert (rule.name, rule.found) == ("routing", 1_200)
    assert [each.position for each in report.findings] == [60 * n for n in range(1, 1_001)]


def test_a_process_that_dies_ends_the_audit_and_leaves_none(
    parts: str, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an audit goes on without a part, or waits for it for ever."""

    def wait(connections: list[Any]) -> list[Any]:
        processes.kill()
        return multiprocessing.connection.wait(connections)

    monkeypatch.setattr(workers, "wait", wait)
    with pytest.raises(AuditorLost) as lost:
        audit(parts, processes=2)
    assert lost.value.exit_code == -signal.SIGKILL
    assert (len(processes.all), processes.left) == (2, 0)


def test_a_process_that_dies_before_it_is_asked_ends_the_audit(
    parts: str, processes: Processes
) -> None:
    """Red when the broken pipe is told in the system's words."""
    processes.dead_at_once = True
    with pytest.raises(AuditorLost):
        audit(parts, processes=2)


def test_no_process_is_left_when_whoever_asked_gives_up(parts: str, processes: Processes) -> None:
    """Red when the processes are ended by whatever collects garbage."""

    def give_up(_done: int, _goal: int) -> None:
        assert processes.left == 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as kept:
        audit(parts, processes=2, report=give_up)
    assert processes.left == 0
    assert kept.value.__traceback__ is not None


def test_an_error_in_a_process_is_raised_where_the_audit_was_asked_for(
    sqlite_url: str, processes: Processes
) -> None:
    """Red when an error of a process is taken for its death, or for an answer."""
    task = Assignment(sqlite_url, (), 0, Scope())
    with pytest.raises(StoreUnavailable, match=str(file_of(sqlite_url))):
        list(checked_by_processes(task, [(0, 10), (10, 20)], 1))
    assert processes.left == 0


@pytest.mark.parametrize("number", [0, 65, True])
def test_as_many_processes_as_there_can_be(sqlite_url: str, number: int) -> None:
    """Red when no process, or a thousand, are taken for a number of them."""
    with pytest.raises(InvalidSetting, match="processes"):
        audit(sqlite_url, processes=number)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGKILL, -9), (signal.SIGTERM, 143)][: effort(2, 3)],
)
def test_an_audit_that_is_ended_leaves_no_process(parts: str, number: int, code: int) -> None:
    """Red when a process goes on without the one that asked: it holds the pipes open then.

    A Ctrl-C is for whoever was started by the terminal: no other process hears it.
    """
    command = [sys.executable, "-m", "tests.audit.waiting", "audit", "--processes", "2"]
    with subprocess.Popen(
        command,
        env=os.environ | {"ALLOC_ES_STORE": parts},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as asked:
        assert asked.stdout is not None
        pids = [asked.stdout.readline(), asked.stdout.readline()]
        assert asked.stdout.readline() == "waits\n"
        if number == signal.SIGINT:
            os.killpg(asked.pid, number)
        else:
            asked.send_signal(number)
        out, err = asked.communicate(timeout=PATIENCE_SECONDS)
    assert all(pid.strip().isdigit() for pid in pids)
    assert (out, asked.returncode) == ("", code)
    interrupted = "the audit is not whole, and nothing was changed" in err
    assert interrupted == (number != signal.SIGKILL)
    assert "Traceback" not in err


def test_every_rule_has_its_words() -> None:
    """Red when a rule of an audit can't be told in words."""
    from alloc_es.audit.report import NUMBERS

    assert NUMBERS.keys() <= RULES.keys()
    assert sorted(set(NUMBERS.values())) == list(range(1, 13))
