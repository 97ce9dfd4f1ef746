"""`show` at another moment, `history` as a timeline, and `diff`."""

import io
from pathlib import Path

import pytest
from rich.console import Console

import alloc_es
from alloc_es.cli.tenure_drawing import TenureDrawing
from alloc_es.tenures import tenures
from tests.cli.past import exported, remembered
from tests.cli.terminal import Terminal
from tests.core.given import promote, register, start
from tests.history.given import history as past

TIMELINE = """\
VERSION  ROLE        SERVED  GENERATIONS  SHARE            RUNS  HOW IT ENDED
v1       current     ███     1 to 3       100%, 95%, 80%   56    superseded by ada, 2026-03-01 12:04:00 UTC
v2       challenger   ▓▓     2 to 3       5%, 20%          4     promoted by ada, 2026-03-01 12:04:00 UTC
v2       current        ███  4 on         100%, 95%, 100%  0     still serving
v3       challenger      ▓   5            5%               0     rejected by ada, 2026-03-01 12:06:00 UTC: worse on the eval set
"""  # noqa: E501
DIFFERENCES = """\
acme/triage, generation 1 to 4: v1 100% became v2 100%
current: v1 became v2
came: v2
left: v1
share: v1 from 100% to 0%
share: v2 from 0% to 100%
moved: 10,000 buckets from v1 to v2
hashed anew: an episode began in between, so a bucket holds other units now
"""


@pytest.fixture
def terminal(sqlite_url: str) -> Terminal:
    return remembered(sqlite_url)


@pytest.mark.parametrize(
    ("option", "moment", "generation"),
    [
        ("--at-generation", "2", 2),
        ("--at-position", "3", 2),
        ("--at-position", "999", 6),
        ("--at-time", "2026-03-01T12:02:59.999999Z", 2),
        ("--at-time", "2026-03-01T14:03:00+02:00", 3),
    ],
)
def test_show_draws_what_held_at_another_moment(
    terminal: Terminal, option: str, moment: str, generation: int
) -> None:
    """Red when the option is taken for another one, or what is now is drawn."""
    entry = terminal.json("history", "acme", "triage")["decisions"][generation - 1]
    assert terminal.json("show", "acme", "triage", option, moment) == entry["allocation"]
    title, as_of, *_, last = terminal.ok("show", "acme", "triage", option, moment).splitlines()
    assert title == f"acme/triage  generation {generation}"
    kind = option.removeprefix("--at-")
    assert as_of.startswith(f"as of {kind} {moment[:10]}")
    assert as_of.endswith("; the newest is generation 6")
    assert last.startswith(f"last: {entry['what']}, by {entry['actor']}, ")


def test_show_without_a_moment_shows_now(terminal: Terminal) -> None:
    now = terminal.ok("show", "acme", "triage").splitlines()
    assert now[0] == "acme/triage  generation 6"
    assert "as of" not in now[1]


def test_a_moment_that_is_none_is_usage_and_one_without_an_allocation_is_refused(
    terminal: Terminal,
) -> None:
    """Red when the first of two moments is taken, or a time without a zone is local."""
    show = ("show", "acme", "triage")
    said = terminal.fails(2, *show, "--at-generation", "1", "--at-position", "2")
    assert "give one of --at-generation, --at-position and --at-time" in said
    for time in ("2026-03-01T12:02:00", "2026-03-01", "yesterday"):
        assert "is no time in ISO 8601 with its zone" in terminal.fails(2, *show, "--at-time", time)
    error = terminal.error(1, *show, "--at-position", "1")
    assert (error["type"], error["position"], error["first_position"]) == ("NothingThen", 1, 2)
    assert terminal.error(1, *show, "--at-generation", "7")["last_generation"] == 6


def test_history_shows_the_tenures_with_their_runs_and_then_the_decisions(
    terminal: Terminal,
) -> None:
    """Red when a bar begins at another generation, or runs are counted for another tenure."""
    tenures, _, decisions = terminal.ok("history", "acme", "triage").partition("\n\n")
    assert tenures == f"{TIMELINE}runs by the run log, up to position 60 of 60"
    assert [line.split()[0] for line in decisions.splitlines()] == ["GENERATION", *"123456"]


def test_on_a_narrow_terminal_a_tenure_is_a_block_with_its_bar_in_its_place() -> None:
    """Red when the bars of all tenures begin at the edge, or a table is squeezed."""
    found = tenures(past(start(), register("v2"), promote("v2")))
    file = io.StringIO()
    Console(file=file, width=60).print(TenureDrawing(found, None, 3))
    assert [line.rstrip() for line in file.getvalue().splitlines()][4:8] == [
        "v2  challenger",
        "    ▓",
        "   generation 2: 5%; runs: -",
        "   promoted by ada, 2026-03-01 12:03:00 UTC: reason 3",
    ]


def test_history_tells_both_ends_of_a_tenure_in_json(terminal: Terminal) -> None:
    """Red when an end has the place, the author or the reason of another decision."""
    found = terminal.json("history", "acme", "triage")
    assert list(found) == ["decisions", "tenures", "runs"]
    assert found["runs"] == {"counted": "run log", "position": 60, "end": 60, "left_over": 0}
    assert found["tenures"][3] == {
        "version": "v3",
        "role": "challenger",
        "since_generation": 5,
        "since_position": 6,
        "since": "2026-03-01T12:05:00Z",
        "since_actor": "ada",
        "since_reason": "",
        "until_generation": 6,
        "until_position": 7,
        "until": "2026-03-01T12:06:00Z",
        "until_actor": "ada",
        "until_reason": "worse on the eval set",
        "outcome": "rejected",
        "shares": [{"generation": 5, "share_bps": 500}],
        "runs": 0,
    }
    serving = found["tenures"][2]
    ended = {name: serving[name] for name in serving if name.startswith(("until", "outcome"))}
    assert set(ended.values()) == {None}
    assert [tenure["runs"] for tenure in found["tenures"]] == [56, 4, 0, 0]


def test_runs_are_those_of_the_read_model_where_that_is_built(terminal: Terminal) -> None:
    """Red when the log is read although the model is there, or the model's place is not said."""
    with alloc_es.connect(terminal.store) as allocations:
        allocations.projections().catch_up("run_ledger")
        allocations.workflow("acme", "triage").spawn_run("late")
        allocations.workflow("acme", "other").spawn_run("of another")
    found = terminal.json("history", "acme", "triage")
    assert found["runs"] == {"counted": "run_ledger", "position": 60, "end": 62, "left_over": 0}
    assert [tenure["runs"] for tenure in found["tenures"]] == [56, 4, 0, 0]
    said = "runs by the read model run_ledger, up to position 60 of 62"
    assert said in terminal.ok("history", "acme", "triage").splitlines()
    with alloc_es.connect(terminal.store) as allocations:
        allocations.projections().purge("run_ledger", "acme")
    found = terminal.json("history", "acme", "triage")
    assert (found["runs"]["counted"], found["runs"]["left_over"]) == ("run log", 0)
    assert [tenure["runs"] for tenure in found["tenures"]] == [56, 4, 1, 0]


def test_runs_are_not_counted_where_nobody_wants_them(terminal: Terminal) -> None:
    """Red when the run log is read all the same, or uncounted runs are 0."""
    lines = terminal.ok("history", "acme", "triage", "--no-runs").splitlines()
    assert lines[3].split()[:8] == ["v2", "current", "███", "4", "on", "100%,", "95%,", "100%"]
    assert lines[3].split()[8] == "-"
    assert lines[5] == ""
    found = terminal.json("history", "acme", "triage", "--no-runs")
    assert (found["runs"], found["tenures"][0]["runs"]) == (None, None)


def test_of_many_shares_the_first_and_the_last_are_told(terminal: Terminal) -> None:
    """Red when a tenure of a thousand shares is a line of a thousand shares."""
    with alloc_es.connect(terminal.store) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.register_challenger("v4", 100)
        for share in (200, 300, 400):
            workflow.commit_allocation({"v4": share})
    told = terminal.ok("history", "acme", "triage").splitlines()[5]
    assert "1% to 4% in 3 steps" in told


def test_where_many_shares_end_as_they_began_the_least_and_the_most_are_told(
    terminal: Terminal,
) -> None:
    """Red when shares that went down and up again read as if nothing had happened."""
    with alloc_es.connect(terminal.store) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.register_challenger("v4", 1000)
        for share in (200, 300, 1000):
            workflow.commit_allocation({"v4": share})
    told = terminal.ok("history", "acme", "triage").splitlines()[5]
    assert "2% to 10%, in 3 steps" in told


def test_an_export_has_the_same_past(terminal: Terminal, tmp_path: Path) -> None:
    """Red when a command that looks back ignores `--from`."""
    path = exported(terminal, tmp_path)
    nowhere = Terminal("sqlite:////no/such/directory/alloc.db")
    for command in (
        ("history", "acme", "triage"),
        ("diff", "acme", "triage", "1", "4"),
        ("show", "acme", "triage", "--at-generation", "3"),
    ):
        assert nowhere.ok(*command, "--from", path) == terminal.ok(*command)
        assert nowhere.json(*command, "--from", path) == terminal.json(*command)
    now = terminal.json("show", "acme", "triage")
    assert nowhere.json("show", "acme", "triage", "--from", path) == now
    assert "was never started" in nowhere.fails(1, "show", "acme", "nothing", "--from", path)


def test_diff_says_what_differs_and_who_decided_so(terminal: Terminal) -> None:
    """Red when a decision of an end is left out, or the ends are taken for each other."""
    said, _, decisions = terminal.ok("diff", "acme", "triage", "1", "4").partition("\n\n")
    assert f"{said}\n" == DIFFERENCES
    assert [line.split()[0] for line in decisions.splitlines()] == ["GENERATION", *"234"]
    assert "it does well" in decisions


def test_diff_reads_backwards_too(terminal: Terminal) -> None:
    """Red when the older generation is always taken for the one before."""
    lines = terminal.ok("diff", "acme", "triage", "3", "2").splitlines()
    assert lines[0] == "acme/triage, generation 3 to 2: v1 80%, v2 20% became v1 95%, v2 5%"
    assert lines[3] == "moved: 1,500 buckets from v2 to v1"
    assert lines[-1].split()[0] == "3"


def test_diff_of_what_does_not_differ_says_so(terminal: Terminal) -> None:
    assert terminal.ok("diff", "acme", "triage", "6", "6").splitlines()[1:] == [
        "no bucket, version or share differs"
    ]


def test_diff_in_json_has_buckets_shares_and_decisions(terminal: Terminal) -> None:
    """Red when a part is left out, or a share is a float."""
    found = terminal.json("diff", "acme", "triage", "2", "3")
    assert (found["before"]["generation"], found["after"]["generation"]) == (2, 3)
    assert (found["came"], found["left"], found["rehashed"]) == ([], [], False)
    assert found["shares"] == {
        "v1": {"before": 9500, "after": 8000},
        "v2": {"before": 500, "after": 2000},
    }
    assert found["moved"] == [{"from": "v1", "to": "v2", "buckets": 1500}]
    assert [entry["actor"] for entry in found["decisions"]] == ["bob"]
