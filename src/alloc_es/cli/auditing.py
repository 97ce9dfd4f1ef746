"""The commands of auditors: check every rule, and seal what was."""

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from alloc_es.audit import AuditReport, Seal, audit, make_seal, read_seal, usable_cores
from alloc_es.cli.documents import Ended
from alloc_es.cli.drawing import Rows
from alloc_es.cli.evidence import Archives, FromPath, evidence, looked_at
from alloc_es.cli.exits import CHECK_FAILED, USAGE
from alloc_es.cli.options import STORE, AsJson, StoreUrl, parse_time
from alloc_es.cli.output import one_line, print_document, print_rich, say
from alloc_es.cli.running import interruptible
from alloc_es.cli.standings import counted
from alloc_es.clock import utc_now
from alloc_es.errors import InvalidSetting
from alloc_es.sample_ratio import SampleRatio
from alloc_es.wording import numbered

_MOST_PRINTED = 10


def audit_(
    source: FromPath = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="TENANT", help="Only this tenant's events.", show_default="all"),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only what was recorded from this time on, in ISO 8601 with its zone.",
            show_default="all",
        ),
    ] = None,
    seals: Annotated[
        list[Path] | None,
        typer.Option(
            "--seal",
            metavar="FILE",
            help="A seal to hold the logs against; may be given again.",
            show_default=False,
        ),
    ] = None,
    archives: Archives = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many processes check runs.", show_default="cores"),
    ] = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Check every rule on the logs; exit code 6 if one is broken.

    Nothing is written. With --from it checks an export, and needs no database.
    """
    since_time = None if since is None else parse_time(since)
    sealed = [read_seal(path) for path in seals or ()]
    where = looked_at(store, source)
    began = time.perf_counter()
    with (
        interruptible("the audit is not whole, and nothing was changed"),
        counted("audit", hidden=as_json) as show,
    ):
        found = audit(
            where,
            archives=tuple(archives or ()),
            tenant_id=tenant,
            since=since_time,
            seals=sealed,
            processes=usable_cores() if processes is None else processes,
            report=show,
        )
    seconds = time.perf_counter() - began
    if as_json:
        print_document(_document(found, seconds))
    else:
        _print(found, seconds)
    if not found.clean:
        raise typer.Exit(CHECK_FAILED)


def _document(found: AuditReport, seconds: float) -> dict[str, Any]:
    return {
        "clean": found.clean,
        "where": found.where,
        "tenant_id": found.tenant_id,
        "since": found.since.isoformat() if found.since else None,
        "ends": dict(found.ends),
        "workflows": found.workflows,
        "decisions": found.decisions,
        "runs": found.runs,
        "seconds": round(seconds, 3),
        "rules": [
            {
                "number": rule.number,
                "name": rule.name,
                "text": rule.text,
                "outcome": rule.outcome,
                "found": rule.found,
                "note": rule.note,
            }
            for rule in found.rules
        ],
        "findings": [{**asdict(each), "text": each.text} for each in found.findings],
        "samples": [key._asdict() | _sample(each) for key, each in found.samples.items()],
    }


def _sample(sample: SampleRatio) -> dict[str, Any]:
    return asdict(sample) | {"versions": [each._asdict() for each in sample.versions]}


def _print(found: AuditReport, seconds: float) -> None:
    rate = found.runs / seconds if seconds else 0
    whose = f" of {one_line(found.tenant_id)}" if found.tenant_id else ""
    since = f" recorded since {found.since.isoformat()}" if found.since else ""
    say(
        f"audited {one_line(found.where)}: {numbered(found.decisions, 'decision')} and "
        f"{numbered(found.runs, 'run')}{whose}{since}, in {seconds:,.1f} s ({rate:,.0f} runs/s)"
    )
    print_rich(_rules(found))
    for rule in found.rules:
        own = [finding for finding in found.findings if finding.rule == rule.name]
        for finding in own[:_MOST_PRINTED]:
            print_rich(Text(one_line(str(finding)), overflow="fold"))
        if rule.found > _MOST_PRINTED:
            say(f"{rule.name}: {rule.found - _MOST_PRINTED:,} more; --json has the first 1,000")
    total = sum(rule.found for rule in found.rules)
    unchecked = [rule.name for rule in found.rules if rule.outcome == "not checked"]
    rest = f"; not checked: {', '.join(unchecked)}" if unchecked else ""
    say(f"{numbered(total, 'finding') if total else 'no finding'}{rest}")


def _rules(found: AuditReport) -> Rows:
    told = [
        f"{rule.found:,} found" if rule.outcome == "broken" else rule.outcome
        for rule in found.rules
    ]
    return Rows(
        columns=("RULE", "NAME", "OUTCOME", "NOTE"),
        cells=[
            (str(rule.number), rule.name, said, one_line(rule.note))
            for rule, said in zip(found.rules, told, strict=True)
        ],
        titles=[
            f"{rule.number} {rule.name}: {said}"
            for rule, said in zip(found.rules, told, strict=True)
        ],
        details=[(one_line(rule.note),) for rule in found.rules],
    )


class SealExists(Ended):
    """The file of a seal that is to be made exists already, at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        problem = f"{path} exists, and a seal is never overwritten; name another file"
        super().__init__(problem, exit_code=USAGE)


def seal(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="Where to write the seal.", show_default=False),
    ],
    after: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A seal to go on from: only what is behind it is sealed.",
            show_default=False,
        ),
    ] = None,
    source: FromPath = None,
    archives: Archives = None,
    store: StoreUrl = STORE,
    as_json: AsJson = False,
) -> None:
    """Write what the logs are now into a small file, to be kept elsewhere.

    `audit --seal FILE` then proves that nothing up to there was changed, removed or inserted.
    """
    if out.exists():
        raise SealExists(out)
    previous = None if after is None else read_seal(after)
    with (
        interruptible("no seal was written"),
        counted("seal", hidden=as_json) as show,
        evidence(store, source, archives) as held,
    ):
        made = make_seal(held, utc_now(), previous=previous, report=show)
    _write(out, made)
    if as_json:
        print_document(_seal_document(out, made))
    else:
        say(
            f"sealed {one_line(made.where)} into {out}: "
            f"{numbered(made.decisions.events, 'decision')} up to position "
            f"{made.decisions.up_to:,} and {numbered(made.runs.events, 'run')} up to position "
            f"{made.runs.up_to:,}; keep it where nobody who can change the store can change it"
        )


def _write(out: Path, made: Seal) -> None:
    """Write the file whole, or not at all."""
    part = out.with_name(f"{out.name}.part")
    try:
        with part.open("wb") as file:
            file.write(made.written())
            file.flush()
            os.fsync(file.fileno())
        # A link, which never overwrites.
        os.link(part, out)
        part.unlink()
    except FileExistsError:
        raise SealExists(out) from None
    except OSError as error:
        raise InvalidSetting("out", f"{out} can't be written: {error.strerror}") from error


def _seal_document(out: Path, made: Seal) -> dict[str, Any]:
    return {
        "file": str(out),
        "sha256": made.digest,
        "sealed_at": made.sealed_at.isoformat(),
        "previous": made.previous,
        "workflows": len(made.heads),
        **{
            name: {
                "after": log.after,
                "up_to": log.up_to,
                "events": log.events,
                "root": log.root,
            }
            for name, log in (("decisions", made.decisions), ("runs", made.runs))
        },
    }


COMMANDS = (audit_, seal)
