"""Given a store whose logs hold whatever a log can hold, and exports of it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from alloc_es import Allocations, SpawnRequest, codec, connect
from alloc_es.events import Recorded, RunSpawned
from alloc_es.evidence import Evidence, Unreadable, open_evidence
from alloc_es.exchange import Format, export
from alloc_es.exchange.cloudevents import SOURCES, ended_line
from alloc_es.store.recorder import LOGS, LogName, Stored
from tests.support.raw import DECISIONS, RUNS

BEGAN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FORMATS: tuple[Format, ...] = ("cloudevents", "parquet")

# Every sign that some format has a meaning for.
QUOTED = 'q"\\%/é 🚀'


def ticking() -> Callable[[], datetime]:
    """A clock that moves on by a second and a microsecond at each look."""
    ticks = count(1)
    return lambda: BEGAN + timedelta(seconds=next(ticks), microseconds=7)


def numbered() -> Callable[[], str]:
    """Ids that are counted."""
    ids = count(1)
    return lambda: f"id-{next(ids):03}"


@contextmanager
def opened(url: str) -> Iterator[Allocations]:
    """A store in which times and ids are always the same."""
    with connect(
        url, actor="ada", max_challengers=2, clock=ticking(), new_id=numbered()
    ) as allocations:
        yield allocations


def fill(allocations: Allocations, runs: int = 12) -> None:
    """Every kind of decision, by two tenants, and runs that any of them allotted."""
    triage = allocations.workflow("acme", "triage/é")
    odd = allocations.workflow(QUOTED, QUOTED)
    for workflow in (triage, odd):
        workflow.start("v1", reason=f'for "{QUOTED}"\n')
        workflow.register_challenger("v2", 3000)
    spawn(allocations, triage.key, "early", runs // 2)
    triage.commit_allocation({"v2": 1000})
    triage.reject_challenger("v2", replacement="v3")
    triage.promote_challenger("v3")
    triage.roll_back(to_generation=1)
    odd.reject_challenger("v2", reason="worse")
    spawn(allocations, odd.key, QUOTED, runs - runs // 2)


def spawn(allocations: Allocations, key: tuple[str, str], name: str, number: int) -> None:
    """Runs whose ids and units begin with a name, of a workflow."""
    requests = [SpawnRequest(*key, f"{name} {n}", f"{name} {n % 5}") for n in range(number)]
    assert all(isinstance(run, RunSpawned) for run in allocations.spawn_runs(requests))


def plant_oddities(allocations: Allocations) -> None:
    """What no release writes, or none does any more, behind what a store holds."""
    store = allocations._store
    (*_, last) = store.runs.stored(0)
    run = codec.decode(last.topic, last.state, stream=last.stream, version=1)
    assert isinstance(run, RunSpawned)
    others = [run.model_copy(update={"run_id": run_id}) for run_id in ODD_RUNS]
    runs = [
        (other.originator_id, 1, last.topic, bytes_of(other))
        for other, bytes_of in zip(others, ODD_RUNS.values(), strict=True)
    ]
    runs.append((f"run/acme/{QUOTED}", 1, "RunGuessed", b'{"a": 1}'))
    (*_, newest) = store.decisions.stored(0)
    future = json.loads(newest.state) | {"schema_version": 99, "command_id": "future"}
    unknown = (newest.stream, newest.version + 1, newest.topic, json.dumps(future).encode())
    with store.desk.writing() as session:
        session.load(RUNS, ((last.position + 20_000 + n, *row) for n, row in enumerate(runs)))
        session.load(DECISIONS, [(newest.position + 7, *unknown)])


def _blanks(run: RunSpawned) -> bytes:
    return json.dumps(json.loads(codec.encode(run)[1])).encode()


def _elsewhere(run: RunSpawned) -> bytes:
    """A time as no release writes it, which is the same moment."""
    fields = json.loads(codec.encode(run)[1])
    moved = run.recorded_at + timedelta(hours=2)
    fields["recorded_at"] = moved.isoformat().replace("+00:00", "+02:00")
    text = json.dumps(fields, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


ODD_RUNS: dict[str, Callable[[RunSpawned], bytes]] = {
    "of release 0.4": lambda run: codec.encode_as(
        run.model_copy(update={"decision_digest": None}), 1
    ),
    "with blanks": _blanks,
    "with an offset": _elsewhere,
    "with a huge bucket": lambda run: codec.encode(run.model_copy(update={"bucket": 2**70}))[1],
    "of today": lambda run: codec.encode(run)[1],
}


def sealed(lines: Sequence[bytes], counts: Mapping[LogName, int] | None = None) -> bytes:
    """An export of these lines, the last one put right, as whoever forges one would do it."""
    body = b"".join(lines[:-1])
    held = {log: sum(SOURCES[log].encode() in line for line in lines) for log in LOGS}
    return body + ended_line(counts or held, codec.digest(body))


def exported(evidence: Evidence, directory: Path, format: Format) -> Path:
    """An export, in a directory."""
    path = directory / {"cloudevents": "log.jsonl", "parquet": "log"}[format]
    export(evidence, path, format=format)
    return path


def stored(evidence: Evidence) -> tuple[list[Stored], list[Stored]]:
    """All rows of both logs."""
    decisions, runs = (list(evidence.stored(log)) for log in ("decisions", "runs"))
    return decisions, runs


def looked_at(where: str | Path) -> tuple[list[Stored], list[Stored]]:
    """All rows of both logs of a store, or of an export."""
    with open_evidence(where) as evidence:
        return stored(evidence)


def told(entries: Iterable[Recorded[Any] | Unreadable]) -> list[object]:
    """Entries so that they can be compared: an error is equal to none but itself."""
    return [
        (entry.position, str(entry.error)) if isinstance(entry, Unreadable) else entry
        for entry in entries
    ]
