"""`replay`: what another policy would have done to the recorded runs."""

import json
from pathlib import Path

import pytest

import alloc_es
from alloc_es.routing import bucket_of
from tests.cli.past import RUNS, exported, remembered
from tests.cli.terminal import Terminal

REPLAY = ("replay", "acme", "triage")
SALT = "id-5"


@pytest.fixture
def terminal(sqlite_url: str) -> Terminal:
    return remembered(sqlite_url)


def between(first: int, end: int, *generations: int) -> list[str]:
    """The runs of these generations whose bucket is in a range, in the order of the log."""
    return [
        name
        for generation in generations
        for name in sorted(f"run-{generation}-{n}" for n in range(RUNS))
        if first <= bucket_of(name, salt=SALT) < end
    ]


def test_a_share_says_how_many_runs_and_which(terminal: Terminal) -> None:
    """Red when runs are routed by what was recorded, or something is recorded."""
    came, left = between(500, 1000, 2), between(1000, 2000, 3)
    assert left
    with alloc_es.connect(terminal.store) as allocations:
        before = allocations.position(), allocations.position("runs")
    lines = terminal.ok(*REPLAY, "--share", "10%", "--ids").splitlines()
    moved = len(came) + len(left)
    assert sorted(lines[:moved]) == sorted(
        [f"run {name} at generation 2: v1, would be v2" for name in came]
        + [f"run {name} at generation 3: v2, would be v1" for name in left]
    )
    assert lines[moved] == (
        f"acme/triage: {moved} of 60 runs would have gone elsewhere; nothing was recorded"
    )
    assert lines[moved + 1].split() == ["GOT", "WOULD", "HAVE", "GOT", "RUNS"]
    cells = [line.split() for line in lines[moved + 2 : -1]]
    assert ["v2", "v1", str(len(left))] in cells
    assert [(got, would) for got, would, _ in cells] == [
        (got, would) for got in ("v1", "v2") for would in ("v1", "v2")
    ]
    assert sum(int(runs) for *_, runs in cells) == 60
    assert lines[-1] == "it would end with v2 100%"
    with alloc_es.connect(terminal.store) as allocations:
        assert (allocations.position(), allocations.position("runs")) == before


def test_json_is_one_document_and_with_ids_a_line_for_each_run(terminal: Terminal) -> None:
    """Red when the ids of all runs are gathered in one document."""
    found = terminal.json(*REPLAY, "--share", "10%")
    assert (found["runs"], found["unplaced"], found["skipped"]) == (60, 0, [])
    assert found["moved"] == sum(move["runs"] for move in found["moves"]) > 0
    assert found["moves"] == sorted(
        [pair for pair in found["routed"] if pair["from"] != pair["to"]], key=lambda p: -p["runs"]
    )
    assert sum(pair["runs"] for pair in found["routed"]) == 60
    assert found["allocation"]["split"] == {"v2": 10_000}
    done = terminal.run(*REPLAY, "--share", "10%", "--ids", "--json")
    assert json.loads(done.stderr) == {"summary": found}
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == found["moved"]
    assert {line["run_id"] for line in lines} >= set(between(1000, 2000, 3))
    for line in lines:
        assert line["unit"] == line["run_id"]
        assert line["bucket"] == bucket_of(line["unit"], salt=SALT)
        assert {line["from"], line["to"]} == {"v1", "v2"}


@pytest.mark.parametrize("policy", ["early", "early_async"])
def test_a_policy_of_yours_is_asked_behind_every_decision(terminal: Terminal, policy: str) -> None:
    """Red when a policy is asked about what was recorded, or an async one is not awaited."""
    found = terminal.json(*REPLAY, "--policy", f"tests.cli.policies:{policy}")
    assert [skipped["generation"] for skipped in found["skipped"]] == [3, 4, 6]
    assert {skipped["proposal"] for skipped in found["skipped"]} == {None}
    assert found["skipped"][1]["decision"]["decision"] == "promotion"
    assert found["skipped"][1]["refusal"]["type"] == "NoSuchChallenger"
    assert found["allocation"]["current"] == "v3"
    said = terminal.ok(*REPLAY, "--policy", f"tests.cli.policies:{policy}")
    assert said.startswith("refused at generation 3, gave v2 20%, by bob: v2 is the current")


def test_what_the_rules_refuse_of_a_policy_is_told_as_the_policys(terminal: Terminal) -> None:
    """Red when it ends the replay, or is told as what somebody had decided."""
    said = terminal.ok(*REPLAY, "--policy", "tests.cli.policies:try_v2").splitlines()
    assert said[0].startswith("refused at generation 2, registered v2, by ada: ")
    refused = [line for line in said if "the policy's Register behind it" in line]
    assert refused
    assert all("runs v2 already" in line for line in refused)
    found = terminal.json(*REPLAY, "--policy", "tests.cli.policies:try_v2")
    proposals = [skipped["proposal"] for skipped in found["skipped"]]
    assert {proposal["version"] for proposal in proposals if proposal} == {"v2"}


def test_a_policy_that_fails_ends_the_replay_with_its_place(terminal: Terminal) -> None:
    """Red when it counts as a hold, or is told as a bug of ours."""
    said = terminal.fails(70, *REPLAY, "--policy", "tests.cli.policies:unsure")
    assert "the policy ended the replay by LookupError: no\\nevidence (policies.py, line" in said
    assert "what would have been generation 2 of acme/triage" in said
    said = terminal.fails(2, *REPLAY, "--policy", "tests.cli.policies:silent")
    assert "which is no Proposal" in said


def test_a_policy_can_not_decide_while_it_is_asked(terminal: Terminal) -> None:
    """Red when a policy that decides by itself does so, although nothing is to be recorded."""
    said = terminal.fails(1, *REPLAY, "--policy", "tests.cli.policies:meddling")
    assert "may not decide on it itself" in said
    assert terminal.json("show", "acme", "triage")["generation"] == 6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give either --share or --policy"),
        (("--share", "5%", "--policy", "a:b"), "give either --share or --policy"),
        (("--share", "100%"), "leaves the current version at least 1bp"),
        (("--share", "5"), "is not a share"),
        (("--policy", "policies"), "is not MODULE:FUNCTION"),
    ],
)
def test_one_of_a_share_and_a_policy_is_given(
    terminal: Terminal, options: tuple[str, ...], said: str
) -> None:
    """Red when one of two wishes is dropped in silence."""
    assert said in terminal.fails(2, *REPLAY, *options)


def test_an_export_is_replayed_as_its_store_is(terminal: Terminal, tmp_path: Path) -> None:
    """Red when an export is not looked at, or its runs go by what the store holds now."""
    path = exported(terminal, tmp_path)
    nowhere = Terminal("sqlite:////no/such/directory/alloc.db")
    command = (*REPLAY, "--share", "10%")
    assert nowhere.json(*command, "--from", path) == terminal.json(*command)
    assert nowhere.ok(*command, "--from", path, "--ids") == terminal.ok(*command, "--ids")
