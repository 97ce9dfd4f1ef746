"""A file of an export that is not as it was written is refused, with the line."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alloc_es.evidence import open_evidence
from alloc_es.exchange.cloudevents import BEGAN, _mark_line
from alloc_es.exchange.errors import ExportDamaged
from alloc_es.exchange.opening import open_export
from tests.exchange.given import looked_at

Damage = Callable[[list[bytes]], list[bytes]]

# The first line, ten decisions, eighteen runs, the last line.
FIRST_RUN, LAST = 12, 30


def replaced(line: int, old: str, new: str) -> Damage:
    """A change inside of a line."""

    def damage(lines: list[bytes]) -> list[bytes]:
        changed = lines[line - 1].replace(old.encode(), new.encode(), 1)
        assert changed != lines[line - 1]
        return [*lines[: line - 1], changed, *lines[line:]]

    return damage


def swapped(line: int) -> Damage:
    """Two lines that stand the other way round."""
    return lambda lines: [
        *lines[: line - 1],
        lines[line],
        lines[line - 1],
        *lines[line + 1 :],
    ]


def with_member(line: int, **members: Any) -> Damage:
    """A line in which members are changed, written as JSON again."""

    def damage(lines: list[bytes]) -> list[bytes]:
        changed = json.loads(lines[line - 1]) | members
        text = json.dumps(changed, ensure_ascii=False, separators=(",", ":"))
        return [*lines[: line - 1], text.encode() + b"\n", *lines[line:]]

    return damage


DAMAGED: dict[str, tuple[Damage, int, str]] = {
    "empty": (lambda _: [], 1, "it is empty"),
    "no export": (lambda _: [b"hello\n"], 1, "no export begins like this"),
    "without its first line": (lambda lines: lines[1:], 1, "it is not of the type"),
    "without its last line": (lambda lines: lines[:-1], LAST - 1, "the file ends here"),
    "cut off in a line": (lambda lines: [*lines[:4], lines[4][:99]], 5, "the file ends here"),
    "cut off in its last line": (
        lambda lines: [*lines[:-1], lines[-1][:99]],
        LAST,
        "the file ends here",
    ),
    "a line behind the last one": (lambda lines: [*lines, lines[-2]], LAST + 1, "ends here"),
    "itself twice": (lambda lines: lines * 2, LAST, "stands between events"),
    "two decisions swapped": (swapped(3), 4, "position 2 of the decisions does not follow 3"),
    "two runs swapped": (swapped(14), 15, "position 3 of the runs does not follow 4"),
    "a run among decisions": (swapped(FIRST_RUN - 1), FIRST_RUN, "stands behind runs"),
    "a run twice": (
        lambda lines: [*lines[:14], *lines[13:]],
        15,
        "position 3 of the runs does not follow 3",
    ),
    "a decision twice": (
        lambda lines: [*lines[:3], *lines[2:]],
        4,
        "position 2 of the decisions does not follow 2",
    ),
    "a decision less": (
        lambda lines: [*lines[:2], *lines[3:]],
        5,
        "generation 3 of allocation/acme/triage%2Fé does not follow 1",
    ),
    "the newest decision less": (
        lambda lines: [*lines[:10], *lines[11:]],
        LAST - 1,
        "it tells of 10 decisions and 18 runs, and there are 9 decisions and 18 runs",
    ),
    "a run less": (lambda lines: [*lines[:13], *lines[14:]], LAST - 1, "there are 10 decisions"),
    "a run's bytes changed": (replaced(13, '"arm":"control"', '"arm":"another"'), 13, "SHA-256"),
    "a decision's bytes changed": (replaced(2, '"actor":"ada"', '"actor":"eve"'), 2, "SHA-256"),
    "a digest changed": (with_member(13, digest="0" * 64), 13, "SHA-256 of its data"),
    "a stream changed": (with_member(13, subject="run/acme/other"), 13, "do not fit"),
    "a place in a stream changed": (with_member(13, streamversion="2"), 13, "do not fit"),
    "a type changed": (replaced(13, "RunSpawned", "RunGuessed"), 13, "do not fit"),
    "a time changed": (replaced(13, '"time":"2026', '"time":"2027'), 13, "its time is 2027"),
    "a position changed": (replaced(13, "000000000002", "000000000003"), 13, "its id 2-"),
    "a position that is none": (with_member(13, sequence="2"), 13, "streamversion are 2 and 1"),
    "an id changed": (with_member(13, id="2-0000000000000000"), 13, "is not made of"),
    "a log changed": (with_member(13, source="/alloc-es/decisions"), 13, "stands behind runs"),
    "a source changed": (with_member(13, source="/elsewhere"), 13, "from /elsewhere"),
    "an attribute less": (with_member(13, digest=None), 13, "its digest is None"),
    "another version of CloudEvents": (with_member(13, specversion="0.3"), 13, "CloudEvents 1.0"),
    "data twice": (with_member(13, data_base64="e30="), 13, "not one of data and data_base64"),
    "a member twice": (replaced(13, '"id":', '"id":"1","id":'), 13, "stands twice"),
    "no JSON": (lambda lines: [*lines[:12], b"{\n", *lines[13:]], 13, "it is no JSON"),
    "no UTF-8": (
        lambda lines: [*lines[:12], lines[12].replace(b"run/acme", b"run/\xff\xff"), *lines[13:]],
        13,
        "UTF-8",
    ),
    "what is no event changed": (replaced(29, "RunGuessed", "RunDoubted"), LAST, "not those whose"),
    "the ends changed": (replaced(1, '"runs":2', '"runs":3'), 1, "its id is not made of"),
    "the counts changed": (replaced(30, '"runs":18', '"runs":19'), LAST, "the file ends here"),
    "another format": (
        lambda lines: [_mark_line(BEGAN, {"format": 2}), *lines[1:]],
        1,
        "its format is 2, known is 1",
    ),
    "no ends": (lambda lines: [_mark_line(BEGAN, {"format": 1}), *lines[1:]], 1, "does not say"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_with_the_line(lines: Path, name: str) -> None:
    """Red when a kind of damage is not looked for, or is put down to another line."""
    damage, line, problem = DAMAGED[name]
    written = lines.read_bytes().splitlines(keepends=True)
    assert len(written) == LAST
    lines.write_bytes(b"".join(damage(written)))
    with pytest.raises(ExportDamaged) as refused:
        open_evidence(lines)
    error = refused.value
    assert (error.path, error.line) == (str(lines), line)
    assert problem in error.problem
    assert str(error).startswith(f"{lines}, line {line}: {error.problem}; ")
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


def rewritten(lines: Path, write: Callable[[Any], str], end: str = "\n") -> None:
    """What another program makes of a file that it has read as JSON."""
    texts = lines.read_text().splitlines()
    lines.write_bytes("".join(write(json.loads(text)) + end for text in texts).encode())


@pytest.mark.parametrize(
    ("write", "end"),
    [
        (lambda event: json.dumps(event, sort_keys=True), "\n"),
        (lambda event: json.dumps(event, ensure_ascii=False), "\r\n"),
        (lambda event: json.dumps({"traceparent": "00-1", "dataschema": None} | event), "\n"),
    ],
    ids=["sorted and escaped", "with blanks", "with more members"],
)
def test_what_another_program_has_written_is_read_alike(
    lines: Path, odd_url: str, write: Callable[[Any], str], end: str
) -> None:
    """Red when an event is read by the place of its bytes only, or its digest is of the file's."""
    rewritten(lines, write, end)
    assert looked_at(lines) == looked_at(odd_url)


def test_what_another_program_has_written_is_checked_alike(lines: Path) -> None:
    """Red when a line in another form is believed without its digest."""
    written = lines.read_bytes().splitlines(keepends=True)
    lines.write_bytes(b"".join(DAMAGED["a run's bytes changed"][0](written)))
    rewritten(lines, json.dumps)
    with pytest.raises(ExportDamaged) as refused:
        open_evidence(lines)
    assert refused.value.line == 13


@pytest.mark.parametrize(
    "name", ["two runs swapped", "a run's bytes changed", "a time changed", "no JSON"]
)
def test_what_is_read_is_checked_again(lines: Path, name: str) -> None:
    """Red when a file is believed that was changed after it was opened, or was not checked then.

    That is what a second process does which shares the work on a file that was checked.
    """
    damage, line, _ = DAMAGED[name]
    written = lines.read_bytes().splitlines(keepends=True)
    lines.write_bytes(b"".join(damage(written)))
    with open_export(lines, check=False) as held, pytest.raises(ExportDamaged) as refused:
        list(held.runs())
    assert refused.value.line == line


def test_a_search_in_a_damaged_file_names_the_line(lines: Path) -> None:
    """Red when the number of a line is counted from where the search began."""
    written = lines.read_bytes().splitlines(keepends=True)
    lines.write_bytes(b"".join([*written[:20], b"{}\n", *written[21:]]))
    with open_export(lines, check=False) as held, pytest.raises(ExportDamaged) as refused:
        list(held.runs(7))
    assert refused.value.line == 21
