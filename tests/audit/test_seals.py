"""A seal tells what no other rule can: that a history was forged which keeps them all."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from alloc_es import InvalidSetting, UnreadableEvent, connect
from alloc_es.audit import Head, Seal, audit, make_seal, read_seal
from alloc_es.evidence import open_evidence
from alloc_es.store.recorder import LogName, Stored
from tests.audit.forging import Copy, Place, found, unchecked
from tests.audit.given import START, Logs, Runs, decide_and_spawn, rows, settings
from tests.rules.given import edited
from tests.support.raw import raw

GOLDEN = Path(__file__).parent / "golden" / "seal-1.json"
SEALED_AT = START + timedelta(days=1)
TABLES: dict[LogName, str] = {"decisions": "decision_events", "runs": "run_events"}
NOTHING = sha256(b"").hexdigest()


def sealed(where: str, previous: Seal | None = None) -> Seal:
    with open_evidence(where) as evidence:
        return make_seal(evidence, SEALED_AT, previous=previous, report=lambda _done, _goal: None)


def blocks_of(stored: Sequence[Stored], after: int, up_to: int) -> list[str]:
    """The digests of a range's blocks, by what the reference says of them."""
    blocks: list[str] = []
    for block in range(after // 10_000, -(-up_to // 10_000)):
        lines = [
            f"{position} {topic} {stream} {version} {sha256(state).hexdigest()}\n"
            for position, stream, version, topic, state in stored
            if after < position <= up_to and (position - 1) // 10_000 == block
        ]
        blocks.append(sha256("".join(lines).encode()).hexdigest())
    return blocks


def root_of(blocks: Sequence[str]) -> str:
    return sha256("".join(f"{block}\n" for block in blocks).encode()).hexdigest()


def at(log: LogName, position: int) -> Place:
    return Place("seal", log, position, *[None] * 5)


def test_a_history_that_was_forged_with_every_digest_right_is_told_by_the_seal_alone(
    copy: Copy, logs: Logs
) -> None:
    """Red when blocks, or heads, are not compared: all other rules are kept."""
    copy.hold(logs)
    seal = sealed(copy.url)
    assert found(copy.audited(seals=[seal])) == []
    assert unchecked(copy.audited(seals=[seal])) == {"read_models"}
    copy.hold(logs.decide(3, reason="never said"))
    assert found(copy.audited()) == []
    report = copy.audited(seals=[seal])
    head = Place("seal", "decisions", None, 11, "acme", "triage", None, None)
    assert found(report) == [at("decisions", 1), at("runs", 1), head]
    end = logs.runs[-1].position
    problem = f"positions 1 to {end} are not what they were when sealed"
    assert report.findings[1].problem == problem


@pytest.mark.parametrize(
    "change",
    [
        lambda runs: [*runs[:40], *runs[41:]],
        lambda runs: [*runs[:40], replace(runs[40], position=runs[40].position + 1), *runs[41:]],
        lambda runs: [*runs[:40], replace(runs[41], position=runs[40].position), *runs[41:]],
        lambda runs: edited(runs, 40, actor="somebody else"),
    ],
)
def test_what_was_removed_moved_or_inserted_is_found_in_its_block(
    copy: Copy, logs: Logs, change: Callable[[Runs], Runs]
) -> None:
    """Red when the lines leave out where an event lies, or one finding stands for all blocks."""
    spread = logs.spread(3_000)
    copy.hold(spread)
    seal = sealed(copy.url)
    copy.hold(spread._replace(runs=change(spread.runs)))
    block = (spread.runs[40].position - 1) // 10_000
    places = [each for each in found(copy.audited(seals=[seal])) if each.rule == "seal"]
    assert places == [at("runs", block * 10_000 + 1)]


def test_a_log_that_was_cut_off_is_found_at_its_end(copy: Copy, logs: Logs) -> None:
    """Red when only what is there is compared: who cuts a log off breaks no other rule."""
    copy.hold(logs)
    seal = sealed(copy.url)
    copy.hold(logs.until(7))
    assert found(copy.audited()) == []
    report = copy.audited(seals=[seal])
    end, last = logs.until(7).decisions[-1].position, logs.decisions[-1].position
    problem = f"the log ends at position {end}, and is sealed up to {last}"
    assert report.findings[0].problem == problem
    places = found(report)
    assert places[:2] == [at("decisions", end), at("decisions", 1)]
    gone = [(each.tenant_id, each.generation) for each in places if each.tenant_id]
    assert gone == [("acme", 11), ("beta", 3)]


def test_what_is_appended_behind_a_seal_is_no_finding(copy: Copy, logs: Logs) -> None:
    """Red when a block is digested beyond the sealed range, which grows with the log."""
    copy.hold(logs.until(9))
    first = sealed(copy.url)
    copy.hold(logs)
    second = sealed(copy.url, first)
    assert second.previous == first.digest
    for log in ("decisions", "runs"):
        assert second.log(log).after == first.log(log).up_to
        assert second.log(log).up_to == copy.audited().ends[log]
    assert found(copy.audited(seals=[first, second])) == []
    copy.hold(logs.run(logs.of(2, "v1")[3], actor="eve"))
    assert found(copy.audited(seals=[second])) == []
    assert found(copy.audited(seals=[second, first])) == [at("runs", 1)]
    copy.hold(logs.run(len(logs.runs) - 1, actor="eve"))
    assert found(copy.audited(seals=[first])) == []
    behind = first.runs.up_to + 1
    assert found(copy.audited(seals=[first, second])) == [at("runs", behind)]


def test_a_seal_of_another_store_does_not_hold(copy: Copy, logs: Logs, sqlite_url: str) -> None:
    """Red when a seal is held against its own store's name, or against nothing."""
    with connect(sqlite_url) as allocations:
        allocations.workflow("acme", "triage").start("v1")
        allocations.workflow("acme", "other").start("v1")
    copy.hold(logs)
    places = found(copy.audited(seals=[sealed(sqlite_url)]))
    assert [(each.log, each.workflow_id) for each in places] == [
        ("decisions", None),
        ("decisions", "other"),
        ("decisions", "triage"),
    ]


def test_one_tenants_audit_holds_the_blocks_and_that_tenants_heads(copy: Copy, logs: Logs) -> None:
    """Red when another tenant's heads are missed, which such an audit does not read."""
    copy.hold(logs)
    seal = sealed(copy.url)
    for tenant_id in ("acme", "beta"):
        assert found(audit(copy.url, tenant_id=tenant_id, seals=[seal])) == []
    copy.hold(logs.decide(11, reason="never said"))
    own = found(audit(copy.url, tenant_id="acme", seals=[seal]))
    theirs = found(audit(copy.url, tenant_id="beta", seals=[seal]))
    assert [each.tenant_id for each in own] == [None, None, "acme"]
    assert [each.tenant_id for each in theirs] == [None, None]


def test_what_was_recorded_since_a_time_is_no_matter_to_a_seal(copy: Copy, logs: Logs) -> None:
    """Red when --since leaves sealed runs out."""
    copy.hold(logs)
    seal = sealed(copy.url)
    late = START + timedelta(days=30)
    assert found(audit(copy.url, since=late, seals=[seal])) == []
    copy.hold(logs.run(0, actor="eve"))
    assert found(audit(copy.url, since=late, seals=[seal])) == [at("runs", 1)]


def test_a_run_that_is_no_event_is_sealed_as_it_lies_there(copy: Copy, logs: Logs) -> None:
    """Red when a seal and an audit differ in what they make of unreadable rows."""
    runs = rows(logs.runs)
    runs[40] = runs[40]._replace(state=b"\xff", topic="Whatever")
    copy.write(rows(logs.decisions), runs)
    seal = sealed(copy.url)
    assert [each.rule for each in found(copy.audited(seals=[seal]))] == ["readable"]
    runs[40] = runs[40]._replace(state=b"\xfe")
    copy.write(rows(logs.decisions), runs)
    assert [each.rule for each in found(copy.audited(seals=[seal]))] == ["readable", "seal"]


def test_a_decision_that_is_no_event_cannot_be_sealed(copy: Copy, logs: Logs) -> None:
    """Red when a seal is made without the head of a workflow."""
    decisions = rows(logs.decisions)
    decisions[3] = decisions[3]._replace(state=b"{}")
    copy.write(decisions, rows(logs.runs))
    with pytest.raises(UnreadableEvent):
        sealed(copy.url)


@pytest.mark.parametrize("stride", [1, 25_000])
def test_a_program_of_its_own_gets_the_same_roots(copy: Copy, logs: Logs, stride: int) -> None:
    """Red when a digest is not made as the reference says, as of a block without events."""
    copy.hold(logs.spread(stride))
    first = sealed(copy.url)
    assert (NOTHING in first.runs.blocks) == (stride > 10_000)
    last = replace(logs.runs[-1], position=logs.runs[-1].position * stride + 11_111)
    copy.hold(logs.spread(stride)._replace(runs=[*logs.spread(stride).runs, last]))
    second = sealed(copy.url, first)
    with raw(copy.url) as database:
        for seal in (first, second):
            for log, table in TABLES.items():
                range_of = seal.log(log)
                stored = [Stored(*each) for each in database.rows(table)]
                blocks = blocks_of(stored, range_of.after, range_of.up_to)
                assert list(range_of.blocks) == blocks
                assert range_of.root == root_of(blocks)
    assert (first.runs.events, second.runs.events) == (len(logs.runs), 1)
    newest = Head("acme", "triage", 11, logs.decision(11).digest)
    assert [first.heads[0], first.heads[1].key] == [newest, ("beta", "triage")]


def test_an_empty_store_can_be_sealed_and_gone_on_from(copy: Copy, logs: Logs) -> None:
    """Red when no block, or the first position, is a special case."""
    copy.write([], [])
    seal = sealed(copy.url)
    assert (seal.decisions.blocks, seal.runs.root, seal.heads) == ((), NOTHING, ())
    assert found(copy.audited(seals=[seal])) == []
    copy.hold(logs)
    assert found(copy.audited(seals=[seal])) == []
    assert sealed(copy.url, seal).runs == sealed(copy.url).runs


def test_a_store_that_ends_before_the_seal_to_go_on_from_is_not_sealed(
    copy: Copy, logs: Logs
) -> None:
    """Red when a range is sealed whose end lies before its beginning."""
    copy.hold(logs)
    seal = sealed(copy.url)
    copy.hold(logs.until(9))
    with pytest.raises(InvalidSetting, match=r"^after: .* ends at position 12 .* sealed up to 14$"):
        sealed(copy.url, seal)


def test_the_seal_of_these_logs_is_these_bytes_for_ever() -> None:
    """Red when another byte is written, by which seals that are kept elsewhere would not hold."""
    with connect("memory:", **settings()) as allocations:
        decide_and_spawn(allocations)
        with open_evidence(allocations) as evidence:
            made = make_seal(evidence, SEALED_AT, previous=None, report=lambda _d, _g: None)
        assert made.written() == GOLDEN.read_bytes()
        seal = read_seal(GOLDEN)
        assert seal == made
        assert seal.digest == sha256(GOLDEN.read_bytes()).hexdigest()
        assert found(audit(allocations, seals=[seal])) == []


BLOCK_0 = read_seal(GOLDEN).runs.blocks[0] if GOLDEN.exists() else ""
EDITED = "was edited: its blocks don't make its root"
REWRITTEN = "is not as `alloc-es seal` writes it"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (BLOCK_0, NOTHING, EDITED),
        ('"up_to": 14', '"up_to": 10001', EDITED),
        ('"up_to": 14', f'"up_to": {10**40}', EDITED),
        ('"after": 0', '"after": 15', EDITED),
        ('"after": 0', '"after": -1', EDITED),
        ('"previous": null', '"previous":  null', REWRITTEN),
        ('"previous": null', '"more": 1,\n "previous": null', REWRITTEN),
        ("version 1", "version 2", REWRITTEN),
        ('"generation": 11', '"generation": "11"', REWRITTEN),
        ("12:00:00+00:00", "12:00:00", REWRITTEN),
        ('"previous": null', "", "is no seal"),
        ('"decisions"', '"decision"', "is no seal"),
        ("{", "", "is no seal"),
    ],
)
def test_a_seal_that_was_edited_is_refused(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    """Red when a file is taken for a seal that `alloc-es seal` would not have written."""
    path = tmp_path / "a.seal"
    text = GOLDEN.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InvalidSetting) as refused:
        read_seal(path)
    assert problem in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_seal_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Red when the system's error is not told as one of a setting."""
    with pytest.raises(InvalidSetting, match="can't be read: No such file"):
        read_seal(tmp_path / "none.seal")
    with pytest.raises(InvalidSetting, match="can't be read: Is a directory"):
        read_seal(tmp_path)


def test_a_position_that_nobody_gave_out_is_not_sealed(
    copy: Copy, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when blocks are counted up to wherever somebody has put a row."""
    monkeypatch.setattr("alloc_es.audit.seals._MOST_BLOCKS", 2)
    copy.hold(logs._replace(runs=[*logs.runs[:-1], replace(logs.runs[-1], position=20_001)]))
    with pytest.raises(InvalidSetting, match="too far away to seal"):
        sealed(copy.url)


def test_a_position_that_nobody_gave_out_is_audited_in_few_parts(copy: Copy, logs: Logs) -> None:
    """Red when parts are counted up to wherever somebody has put a row."""
    copy.hold(logs._replace(runs=[*logs.runs[:-1], replace(logs.runs[-1], position=2**63 - 1)]))
    with open_evidence(copy.url) as evidence:
        assert len(evidence.parts()) <= 256
    assert found(copy.audited()) == []


def test_the_note_of_a_seal_says_what_it_is_about_and_what_is_under_none(
    copy: Copy, logs: Logs
) -> None:
    """Red when a seal of the end of a log passes for one of all of it."""
    copy.hold(logs.until(4))
    first = sealed(copy.url)
    copy.hold(logs)
    second = sealed(copy.url, first)
    (early, late, both) = (
        next(rule.note for rule in copy.audited(seals=seals).rules if rule.name == "seal")
        for seals in ([first], [second], [first, second])
    )
    runs = logs.runs[-1].position
    assert f"runs 1 to {first.runs.up_to} of {runs}, sealed" in early
    assert f"SHA-256 {first.digest}" in early
    missing = "what is before them is not checked: give the seal before it, too"
    assert (missing in early, missing in late, missing in both) == (False, True, False)
