"""`alloc-es seal` writes a file once, whole, and `audit --seal` holds the logs against it."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from alloc_es import connect
from alloc_es.evidence import open_evidence
from alloc_es.exchange import export
from tests.audit.forging import Copy
from tests.audit.given import Logs
from tests.cli.terminal import Terminal


@pytest.fixture
def copy(sqlite_url: str, logs: Logs) -> Copy:
    connect(sqlite_url).close()
    made = Copy(sqlite_url)
    made.hold(logs.until(9))
    return made


def test_seals_that_go_on_from_one_another_hold_and_tell_what_was_changed(
    copy: Copy, logs: Logs, tmp_path: Path
) -> None:
    """Red when --after seals all anew, or --seal is not looked at."""
    terminal = Terminal(copy.url)
    first, second = tmp_path / "first.seal", tmp_path / "second.seal"
    said = terminal.ok("seal", "--out", str(first))
    assert said.startswith("sealed SQLite database ")
    assert f"into {first}: 12 decisions up to position 12 and " in said
    assert said.endswith(f"note its SHA-256, {sha256(first.read_bytes()).hexdigest()}\n")
    copy.hold(logs)
    document = terminal.json("seal", "--out", str(second), "--after", str(first))
    written = json.loads(second.read_bytes())
    assert document["file"] == str(second)
    assert document["sha256"] == sha256(second.read_bytes()).hexdigest()
    assert document["previous"] == sha256(first.read_bytes()).hexdigest() == written["previous"]
    assert document["workflows"] == 2
    assert document["runs"] == {n: v for n, v in written["runs"].items() if n != "blocks"}
    assert (document["decisions"]["after"], document["decisions"]["up_to"]) == (12, 14)
    both = ["--seal", str(first), "--seal", str(second)]
    assert "11    seal          kept" in terminal.ok("audit", *both)
    copy.hold(logs.run(len(logs.runs) - 1, actor="eve"))
    done = terminal.run("audit", *both)
    assert done.returncode == 6
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("runs, position"))
    after = written["runs"]["after"]
    assert line.startswith(
        f"runs, position {after + 1}: positions {after + 1} to 85 are not what they were when "
        "sealed (seal: Nothing up to a sealed position was changed, removed or inserted.)"
    )


def test_the_seal_of_an_export_is_that_of_its_store(copy: Copy, tmp_path: Path) -> None:
    """Red when an export is digested otherwise than what it was made of."""
    with open_evidence(copy.url) as evidence:
        export(evidence, tmp_path / "export")
    made = []
    for name, source in (("a.seal", []), ("b.seal", ["--from", str(tmp_path / "export")])):
        Terminal(copy.url).ok("seal", "--out", str(tmp_path / name), *source)
        seal = json.loads((tmp_path / name).read_bytes())
        made.append({name: seal[name] for name in ("decisions", "runs", "heads", "previous")})
    assert made[0] == made[1]


def test_a_seal_is_never_overwritten_and_never_half_written(copy: Copy, tmp_path: Path) -> None:
    """Red when a seal is written over another, or where nothing can be sealed."""
    path, missing = tmp_path / "a.seal", tmp_path / "none" / "b.seal"
    path.write_text("what is kept here")
    terminal = Terminal(copy.url)
    assert "a seal is never overwritten" in terminal.fails(2, "seal", "--out", str(path))
    assert path.read_text() == "what is kept here"
    assert "can't be written" in terminal.fails(2, "seal", "--out", str(missing))
    nowhere = "sqlite:////no/such/directory/alloc.db"
    other = str(tmp_path / "c.seal")
    assert "does not exist" in Terminal(nowhere).fails(4, "seal", "--out", other)
    after = ["--after", str(path)]
    assert "is no seal" in terminal.fails(2, "seal", "--out", other, *after)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.seal", "alloc.db"]
