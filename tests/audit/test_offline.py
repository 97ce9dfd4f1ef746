"""What breaks the rules in a store breaks them in its export, on a machine with no database."""

from pathlib import Path

import pytest

from alloc_es import connect
from alloc_es.audit import audit
from alloc_es.evidence import open_evidence
from alloc_es.exchange import Format, export
from tests.audit import test_planted as planted
from tests.audit.forging import Copy, found
from tests.audit.given import Logs, rows
from tests.audit.test_seals import sealed


def everything(copy: Copy, logs: Logs) -> None:
    """Logs in which most rules are broken, each in a place of its own, and rows are no events."""
    forged = planted.a_second_start(logs).logs
    forged = planted.more_challengers_than_allowed(forged).logs
    forged = planted.a_rejection_made_a_split(forged).logs
    forged = planted.a_run_on_the_other_arm(forged).logs
    forged = planted.a_run_with_the_digest_of_another_decision(forged).logs
    forged = forged.run(60, decision_position=logs.decision(11).position)
    forged = planted.a_run_id_given_out_twice(forged).logs
    decisions, runs = rows(forged.decisions), rows(forged.runs)
    for stored, place in ((decisions, logs.place(10)), (runs, 50)):
        stored[place] = stored[place]._replace(state=b"\xff{")
    runs[51] = runs[51]._replace(topic="Whatever")
    copy.write(decisions, runs)


@pytest.mark.parametrize("format", ["cloudevents", "parquet"])
def test_an_export_gives_the_findings_of_its_store(
    sqlite_url: str, logs: Logs, tmp_path: Path, format: Format
) -> None:
    """Red when an export mends, loses or adds what breaks a rule."""
    connect(sqlite_url).close()
    copy = Copy(sqlite_url)
    copy.hold(logs)
    seal = sealed(sqlite_url)
    everything(copy, logs)
    with open_evidence(sqlite_url) as evidence:
        export(evidence, tmp_path / "export", format=format)
    live, offline = (audit(each, seals=[seal]) for each in (sqlite_url, tmp_path / "export"))
    assert offline.findings == live.findings
    assert offline.samples == live.samples
    assert (offline.decisions, offline.runs, offline.ends) == (
        live.decisions,
        live.runs,
        live.ends,
    )
    rules = {each.rule for each in found(live)}
    assert rules >= {"readable", "transitions", "challengers", "rejections", "routing", "chain"}
    assert rules >= {"newest", "run_ids", "seal"}


@pytest.mark.parametrize("format", ["cloudevents", "parquet"])
def test_two_processes_read_parts_of_an_export(
    sqlite_url: str, logs: Logs, tmp_path: Path, format: Format
) -> None:
    """Red when a part of an export is read otherwise than the whole."""
    connect(sqlite_url).close()
    copy = Copy(sqlite_url)
    everything(copy, logs.spread(2_500))
    with open_evidence(sqlite_url) as evidence:
        export(evidence, tmp_path / "export", format=format)
    one, two = (audit(tmp_path / "export", processes=number) for number in (1, 2))
    assert two == one
    assert one.findings == audit(sqlite_url).findings
