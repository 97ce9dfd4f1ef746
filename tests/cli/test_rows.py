"""Rows of runs: what JSON lines and CSV may hold, and how a bad row is told."""

import os
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from alloc_es import InvalidSetting, SpawnRequest
from alloc_es.cli.lines import LONGEST_LINE, InputLost, Lines
from alloc_es.cli.rows import FIELDS, InvalidRow, Row, RowFormat, Rows

RUN = SpawnRequest("acme", "triage", "run-1", "customer-17", "night-shift")
BARE = SpawnRequest("acme", "triage", "run-1")


@contextmanager
def opened(path: Path) -> Iterator[Lines]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield Lines(descriptor)
    finally:
        os.close(descriptor)


def taken(lines: Lines, rows: Rows) -> list[tuple[int, SpawnRequest | str]]:
    """Every row up to the end, a bad one as what is said of it."""
    found: list[Row] = []
    while not lines.at_end:
        if (row := rows.take()) is not None:
            found.append(row)
        lines.arrived()
    return [(line, str(row) if isinstance(row, InvalidRow) else row) for line, row in found]


@pytest.fixture
def rows_of(tmp_path: Path) -> "RowsOf":
    return RowsOf(tmp_path / "runs")


class RowsOf:
    """Reads a text as the file of `--from`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(
        self,
        text: str | bytes,
        form: RowFormat | None = None,
        tenant_id: str | None = "acme",
        workflow_id: str | None = "triage",
    ) -> list[tuple[int, SpawnRequest | str]]:
        self._path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with opened(self._path) as lines:
            rows = Rows(lines, form, tenant_id=tenant_id, workflow_id=workflow_id)
            return taken(lines, rows)

    def said(self, text: str | bytes) -> str:
        """What is said of the one bad row of a text."""
        ((_, problem),) = self(text)
        assert isinstance(problem, str)
        return problem


@pytest.mark.parametrize(
    "text",
    [
        (
            '{"run_id": "run-1", "unit": "customer-17", "tenant_id": "acme", '
            '"workflow_id": "triage", "actor": "night-shift"}'
        ),
        "run_id,unit,tenant_id,workflow_id,actor\nrun-1,customer-17,acme,triage,night-shift",
        "actor,workflow_id,tenant_id,unit,run_id\nnight-shift,triage,acme,customer-17,run-1\n",
        (
            '"actor","workflow_id","tenant_id","unit","run_id"\n'
            '"night-shift",triage,acme,"customer-17",run-1\n'
        ),
    ],
)
def test_a_row_is_read_by_its_names(rows_of: RowsOf, text: str) -> None:
    """Red when a field is dropped or swapped, or a format is not recognised."""
    ((_, row),) = rows_of(text, tenant_id=None, workflow_id=None)
    assert row == RUN


@pytest.mark.parametrize(
    "text",
    [
        '{"run_id": "run-1"}',
        '{"run_id": "run-1", "unit": null, "tenant_id": null, "actor": null}',
        "run_id\nrun-1",
        "run_id,unit,tenant_id,actor\nrun-1,,,\n",
    ],
)
def test_what_a_row_leaves_out_is_the_command_lines(rows_of: RowsOf, text: str) -> None:
    """Red when a null or an empty cell is an id, or a default is not taken."""
    assert [row for _, row in rows_of(text)] == [BARE]


def test_a_row_wins_over_the_command_line(rows_of: RowsOf) -> None:
    """Red when the default is taken although the row names a workflow."""
    ((_, row),) = rows_of('{"run_id": "r", "tenant_id": "globex", "workflow_id": "route"}')
    assert row == SpawnRequest("globex", "route", "r")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n \n", ""])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_marks_and_ends_of_lines_are_no_content(rows_of: RowsOf, mark: str, end: str) -> None:
    """Red when a byte order mark, a carriage return or a blank line is part of a row."""
    for begin, text in (
        ("", '{"run_id": "run-1"}'),
        ("run_id\n", "run-1"),
        ("run_id\n", '"run-1"'),
    ):
        assert [row for _, row in rows_of(f"{mark}{begin}{text}{end}")] == [BARE]


def test_the_format_may_be_told(rows_of: RowsOf) -> None:
    """Red when the first byte decides although the format is told."""
    assert "it is not JSON" in str(rows_of("run_id\n", RowFormat.JSONL))
    with pytest.raises(InvalidSetting, match=r"unknown column '\{"):
        rows_of('{"run_id": "r"}', RowFormat.CSV)


def test_quotes_of_csv_are_read_as_rfc_4180_has_them(rows_of: RowsOf) -> None:
    """Red when a comma or a quote inside of quotes ends a cell."""
    found = rows_of('run_id,unit\n"a,b","say ""hi"""\nc"d,e\n')
    assert [row for _, row in found] == [
        SpawnRequest("acme", "triage", "a,b", 'say "hi"'),
        SpawnRequest("acme", "triage", 'c"d', "e"),
    ]


def test_a_row_that_spans_lines_has_the_number_of_its_first(rows_of: RowsOf) -> None:
    """Red when the lines of a row are counted once, or as its last."""
    (two, spanning), (four, last) = rows_of('run_id\n"run\n-1"\nrun-4\n')
    assert (two, four) == (2, 4)
    assert isinstance(spanning, SpawnRequest)
    assert spanning.run_id == "run\n-1"
    assert last == SpawnRequest("acme", "triage", "run-4")


@pytest.mark.parametrize("rest", ["run-3\nrun-4\n", "run-3\n" + "x" * LONGEST_LINE + "\nrun-5\n"])
def test_a_quote_that_is_never_closed_costs_its_own_line(rows_of: RowsOf, rest: str) -> None:
    """Red when the rows behind it are swallowed."""
    found = dict(rows_of(f'run_id\n"run-2\n{rest}'))
    assert "its quotes are wrong" in str(found[2])
    assert found[3] == SpawnRequest("acme", "triage", "run-3")
    assert len(found) == rest.count("\n") + 1


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("x", "it is not JSON: Expecting value at character 1"),
        ('{"run_id": "r"', "it is not JSON: Expecting ',' delimiter at character 15"),
        ('{"run_id": "r"} {}', "it is not one JSON object: more begins at character 16"),
        ('["r"]', "it is no JSON object"),
        ("[" * 50_000, "it is JSON that is nested too deeply or too large"),
        ('{"run_id": ' + "9" * 5_000 + "}", "it is JSON that is nested too deeply or too large"),
        ("{}", "it has no run_id"),
        ('{"run_id": null}', "it has no run_id"),
        ('{"run_id": 17}', "its run_id is a number, not a string"),
        ('{"run_id": "r", "unit": ["u"]}', "its unit is a list, not a string"),
        ('{"run_id": "r", "tenant_id": {}}', "its tenant_id is an object, not a string"),
        ('{"run_id": "r", "actor": true}', "its actor is true or false, not a string"),
        ('{"run_id": "r", "run_id": "s"}', "it has a field twice"),
        (
            '{"run_id": "r", "version": "v2"}',
            f"it has an unknown field 'version'; known are {', '.join(FIELDS)}",
        ),
        (b'{"run_id": "\xff"}', "it is not UTF-8: invalid start byte at byte 13"),
        ("{" + " " * LONGEST_LINE + "}", "it is longer than 65,536 bytes"),
    ],
)
def test_a_bad_row_of_json_is_told_and_the_others_go_on(
    rows_of: RowsOf, row: str | bytes, said: str
) -> None:
    """Red when a bad row ends the command, or takes another one with it."""
    text = row if isinstance(row, bytes) else row.encode()
    good = b'{"run_id": "run-1"}'
    found = rows_of(b"\n".join((good, text, good)), RowFormat.JSONL)
    assert found == [(1, BARE), (2, said), (3, BARE)]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (",u", "it has no run_id"),
        ("r", "it has 1 cell, the header has 2"),
        ("r,u,v", "it has 3 cells, the header has 2"),
        ('"r"x,u', "its quotes are wrong: ',' expected after '\"'"),
        (b"r,\xe9", "it is not UTF-8: unexpected end of data at byte 3"),
        (b'"r",\xff', "it is not UTF-8: invalid start byte at byte 5"),
        ("r," + "u" * LONGEST_LINE, "it is longer than 65,536 bytes"),
    ],
)
def test_a_bad_row_of_csv_is_told_and_the_others_go_on(
    rows_of: RowsOf, row: str | bytes, said: str
) -> None:
    """Red when a bad row ends the command, or takes another one with it."""
    text = row if isinstance(row, bytes) else row.encode()
    found = rows_of(b"\n".join((b"run_id,unit\nrun-1,", text, b"run-1,")))
    assert found == [(2, BARE), (3, said), (4, BARE)]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("run_id,version,share", "unknown column 'version', 'share'; known are run_id, unit"),
        ("run_id,unit,unit", "the CSV header has column unit twice"),
        ("unit,tenant_id,workflow_id", "no column run_id"),
        ("run_id,workflow_id", "no column tenant_id; name a TENANT for all rows"),
        ("run_id,tenant_id", "no column workflow_id; name a WORKFLOW for all rows"),
        ("run_id;unit", "unknown column 'run_id;unit'"),
        ('"run_id', "the header is no CSV: its quotes are wrong"),
        (b"\xff\xfer\0u\0n\0", "the header is no CSV: it is not UTF-8"),
    ],
)
def test_a_header_that_can_not_be_one_is_refused_once(
    rows_of: RowsOf, header: str | bytes, said: str
) -> None:
    """Red when a column is passed over in silence, or each of its rows is told."""
    text = header if isinstance(header, bytes) else header.encode()
    with pytest.raises(InvalidSetting) as refused:
        rows_of(text + b"\n" + b"r,s\n" * 3, tenant_id=None, workflow_id=None)
    assert said in str(refused.value)


@pytest.mark.parametrize("first", ['[{"run_id": "r"}]', "no JSON", '"run_id": "r"}', '"open'])
def test_a_first_line_that_was_taken_for_a_header_tells_of_json_lines(
    rows_of: RowsOf, first: str
) -> None:
    """Red when a bad line in front of JSON lines is only told to be no CSV."""
    with pytest.raises(InvalidSetting, match="give --format jsonl"):
        rows_of(f'{first}\n{{"run_id": "s"}}\n')


@pytest.mark.parametrize(("header", "form"), [("run_id,x", None), ("no JSON", RowFormat.CSV)])
def test_a_header_that_is_one_tells_nothing_of_json_lines(
    rows_of: RowsOf, header: str, form: RowFormat | None
) -> None:
    """Red when whoever writes CSV is sent to the other format."""
    with pytest.raises(InvalidSetting) as refused:
        rows_of(f"{header}\nr,s\n", form)
    assert "jsonl" not in str(refused.value)


def test_what_is_taken_is_counted_in_bytes(tmp_path: Path) -> None:
    """Red when the progress of `spawn --from` is what was read ahead, not what is settled."""
    path = tmp_path / "rows"
    path.write_bytes(b"\xef\xbb\xbfa\r\nbb\nccc")
    with path.open("rb") as file:
        lines = Lines(file.fileno())
        taken = [lines.taken for _ in iter(lines.take, None)]
    assert (taken, lines.size, lines.read) == ([6, 9, 12], 12, 12)


def test_an_empty_input_has_no_rows(rows_of: RowsOf) -> None:
    assert rows_of("") == rows_of("\n\n") == rows_of("run_id\n") == []


def test_a_line_counts_as_arrived_when_its_end_has() -> None:
    """Red when half a line is taken, or the end of the input is waited for."""
    ours, theirs = os.pipe()
    try:
        lines = Lines(ours)
        assert not lines.arrived()
        os.write(theirs, b'{"run')
        assert not lines.arrived()
        os.write(theirs, b'_id": "r"}\nhalf')
        assert lines.arrived()
        assert lines.take() == b'{"run_id": "r"}'
        assert not lines.arrived()
        os.close(theirs)
        assert lines.arrived()
        assert lines.take() == b"half"
        assert (lines.arrived(), lines.at_end, lines.take()) == (True, True, None)
    finally:
        os.close(ours)


def test_a_line_without_an_end_is_not_kept_in_memory() -> None:
    """Red when what is too long for a row is gathered until its end comes."""
    ours, theirs = os.pipe()
    size = 30_000_000

    def write() -> None:
        with os.fdopen(theirs, "wb") as pipe:
            for _ in range(size // 10_000):
                pipe.write(b"x" * 10_000)
            pipe.write(b"\nend\n")

    writer = threading.Thread(target=write)
    writer.start()
    tracemalloc.start()
    lines = Lines(ours)
    long = lines.take()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines.take() == b"end"
    writer.join()
    os.close(ours)
    assert long is not None
    assert LONGEST_LINE < len(long) < peak < size / 10


def test_an_input_that_breaks_off_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a read that fails is a bug of ours, exit code 70."""

    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    ours, theirs = os.pipe()
    os.close(theirs)
    monkeypatch.setattr("alloc_es.cli.lines.os.read", fail)
    with pytest.raises(InputLost, match="Input/output error"):
        Lines(ours).take()
    os.close(ours)
