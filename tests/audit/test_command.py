"""`alloc-es audit`: what it ends with, what it prints, and that it writes nothing."""

import json
from pathlib import Path

import pytest

from alloc_es import connect
from alloc_es.audit.report import NUMBERS
from alloc_es.evidence import open_evidence
from alloc_es.exchange import Format, export
from alloc_es.rules import RULES
from tests.audit.forging import Copy, file_of
from tests.audit.given import Logs
from tests.cli.terminal import Terminal

NO_STORE = "sqlite:////no/such/directory/alloc.db"


@pytest.fixture
def copy(sqlite_url: str, logs: Logs) -> Copy:
    connect(sqlite_url).close()
    made = Copy(sqlite_url)
    made.hold(logs)
    return made


def exported(copy: Copy, target: Path, format: Format = "cloudevents") -> Path:
    with open_evidence(copy.url) as evidence:
        export(evidence, target, format=format)
    return target


def with_many_findings(logs: Logs) -> Logs:
    """Twelve runs that do not follow from their generations, and one that came too late."""
    forged = logs.run(3, decision_position=logs.decision(11).position)
    for place in range(20, 32):
        forged = forged.run(place, bucket=-1)
    return forged


def test_a_clean_store_ends_with_0_and_a_line_for_each_rule(copy: Copy) -> None:
    """Red when a rule has no line, or what was not checked is not said at the end."""
    first, heading, *lines = Terminal(copy.url).ok("audit").splitlines()
    assert first.startswith(f"audited SQLite database {file_of(copy.url)}: 14 decisions and 85 run")
    assert heading.split() == ["RULE", "NAME", "OUTCOME", "NOTE"]
    told = [line.split()[:2] for line in lines[: len(NUMBERS)]]
    assert told == [[str(number), name] for name, number in NUMBERS.items()]
    assert lines[-1] == "no finding; not checked: read_models, seal"


def test_findings_end_with_6_and_are_ten_lines_a_rule(copy: Copy, logs: Logs) -> None:
    """Red when a thousand findings of one rule hide those of another."""
    forged = with_many_findings(logs)
    copy.hold(forged)
    done = Terminal(copy.url).run("audit")
    assert (done.returncode, done.stderr) == (6, "")
    lines = done.stdout.splitlines()
    found = [line for line in lines if line.startswith("runs, position")]
    assert len(found) == 11
    assert [line.split()[2] for line in lines if line.startswith("5 ")] == ["12"]
    assert "routing: 2 more; --json has the first 1,000" in lines
    assert lines[-1] == "13 findings; not checked: read_models, seal"
    run = forged.runs[20].event
    assert found[0] == (
        f"runs, position 21: run {run.run_id} of acme/triage, generation 2: it has bucket -1 "
        f"where its generation says {logs.runs[20].event.bucket} (routing: {RULES['routing']})"
    )


def test_a_finding_is_one_line_whatever_it_quotes(copy: Copy, logs: Logs) -> None:
    """Red when what a forger wrote into an event gives orders to the terminal."""
    copy.hold(logs.run(20, version="v\x1b[31m\nno finding"))
    done = Terminal(copy.url).run("audit")
    assert done.returncode == 6
    assert "\x1b" not in done.stdout
    assert "no finding" not in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--processes", "0"], "processes: 0 is not within 1..64"),
        (["--since", "2026-03-01"], "no time in ISO 8601 with its zone"),
        (["--tenant", " "], "tenant id"),
        (["--seal", "/no/such.seal"], "seal: /no/such.seal can't be read"),
        (["--from", "/no/such.export"], "/no/such.export: No such file or directory"),
        (["--store", "memory:"], "one in memory ends with the command"),
    ],
)
def test_what_it_cannot_be_asked_ends_with_2(copy: Copy, arguments: list[str], words: str) -> None:
    """Red when wrong usage is told as a finding, or as a failure of the store."""
    assert words in Terminal(copy.url).fails(2, "audit", *arguments)


def test_a_store_that_is_not_there_ends_with_4() -> None:
    """Red when an audit makes a store, or is clean where there is none."""
    assert "does not exist" in Terminal(NO_STORE).fails(4, "audit")
    assert Terminal(NO_STORE).error(4, "audit")["type"] == "StoreNotInitialised"


def test_the_json_has_every_rule_and_every_finding_with_its_place(copy: Copy, logs: Logs) -> None:
    """Red when a field is renamed or left out, or a finding is cut to ten of its rule."""
    forged = with_many_findings(logs)
    copy.hold(forged)
    done = Terminal(copy.url).run("audit", "--json")
    assert (done.returncode, done.stderr) == (6, "")
    document = json.loads(done.stdout)
    assert isinstance(document.pop("seconds"), float)
    rules, findings, samples = (document.pop(name) for name in ("rules", "findings", "samples"))
    assert document == {
        "clean": False,
        "where": f"SQLite database {file_of(copy.url)}",
        "tenant_id": None,
        "since": None,
        "ends": {"runs": 85, "decisions": 14},
        "workflows": 2,
        "decisions": 14,
        "runs": 85,
    }
    assert [(each["number"], each["name"], each["text"]) for each in rules] == [
        (number, name, RULES[name]) for name, number in NUMBERS.items()
    ]
    counts = {each["name"]: (each["outcome"], each["found"]) for each in rules if each["found"]}
    assert counts == {"routing": ("broken", 12), "newest": ("broken", 1)}
    assert {each["outcome"] for each in rules} == {"broken", "kept", "not checked"}
    run = forged.runs[20].event
    assert findings[0] | {"problem": ""} == {
        "rule": "routing",
        "text": RULES["routing"],
        "log": "runs",
        "position": 21,
        "generation": 2,
        "tenant_id": "acme",
        "workflow_id": "triage",
        "command_id": None,
        "run_id": run.run_id,
        "problem": "",
    }
    assert len(findings) == 13
    assert [(each["workflow_id"], each["verdict"]) for each in samples] == [
        ("triage", "not enough data"),
        ("triage", "as expected"),
    ]
    assert {"version", "observed", "expected", "anytime_p_value", "verdict"} == set(
        samples[0]["versions"][0]
    )


@pytest.mark.parametrize("format", ["cloudevents", "parquet"])
def test_an_export_is_audited_without_a_database(
    copy: Copy, logs: Logs, tmp_path: Path, format: Format
) -> None:
    """Red when --from looks at the store, or finds other things than an audit of it."""
    copy.hold(with_many_findings(logs))
    target = exported(copy, tmp_path / "export", format)
    told = []
    for store, arguments in ((copy.url, []), (NO_STORE, ["--from", str(target)])):
        done = Terminal(store).run("audit", "--json", "--processes", "1", *arguments)
        assert (done.returncode, done.stderr) == (6, "")
        told.append(json.loads(done.stdout))
    live, offline = told
    assert offline["findings"] == live["findings"]
    assert offline["where"] == str(target)
    unchecked = [each["name"] for each in offline["rules"] if each["outcome"] == "not checked"]
    assert unchecked == ["deliveries", "read_models", "seal"]


def test_in_a_pipe_it_says_nothing_but_what_it_found(copy: Copy) -> None:
    """Red when progress is drawn where nobody watches."""
    done = Terminal(copy.url).process("audit", "--json", "--processes", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["clean"]


@pytest.mark.parametrize(
    "command",
    ["audit", "audit --json --tenant acme --since 2026-03-01T12:30:00Z", "seal --out {}/a.seal"],
)
def test_nothing_is_written_to_the_store(copy: Copy, tmp_path: Path, command: str) -> None:
    """Red when what looks at a store changes it."""
    with connect(copy.url) as allocations:
        allocations.projections().catch_up("run_ledger")
        with allocations.triggers("loop", follow=False) as triggers:
            next(iter(triggers))
    before = file_of(copy.url).read_bytes()
    Terminal(copy.url).ok(*command.format(tmp_path).split())
    assert file_of(copy.url).read_bytes() == before
    others = file_of(copy.url).parent.glob("alloc.db-wal")
    assert sum(each.stat().st_size for each in others) == 0
