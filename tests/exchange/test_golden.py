"""Exports that were once written are read for ever, and written alike where bytes are ours."""

from collections import Counter
from pathlib import Path

import pytest

from alloc_es import codec
from alloc_es.evidence import Unreadable, open_evidence
from alloc_es.exchange import export
from tests.exchange.given import stored

GOLDEN = Path(__file__).parent / "golden"
# Over every row of both logs, as another program would compute it.
DIGEST = "4a0daf0a957343cb7a371dd696857986862ae2d890c18d24f0eb38d30262b53f"


@pytest.mark.parametrize("name", ["format-1.jsonl", "format-1"])
def test_a_golden_export_is_read_as_ever(name: str) -> None:
    """Red when a member, a column or a file is renamed, or read in another way."""
    with open_evidence(GOLDEN / name) as held:
        assert held.ends() == {"decisions": 16, "runs": 20_017}
        rows = [row for log in stored(held) for row in log]
        text = "\n".join(f"{row.position} {row.stream} {codec.digest(row.state)}" for row in rows)
        assert codec.digest(text.encode()) == DIGEST
        kinds = Counter(
            type(entry).__name__ if isinstance(entry, Unreadable) else type(entry.event).__name__
            for log in (held.decisions(), held.runs())
            for entry in log
        )
    assert kinds == {
        "AllocationCommitted": 6,
        "ChallengerRegistered": 2,
        "ChallengerRejectedWithoutReplacement": 1,
        "RunSpawned": 17,
        "Unreadable": 2,
    }


def test_lines_are_written_as_ever(tmp_path: Path) -> None:
    """Red when a member is added, left out, moved or formatted in another way."""
    with open_evidence(GOLDEN / "format-1") as held:
        export(held, tmp_path / "log.jsonl")
    assert (tmp_path / "log.jsonl").read_bytes() == (GOLDEN / "format-1.jsonl").read_bytes()
