"""How a read model stands: built or not, by which version, how far, and stopped at what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from alloc_es.building import Build
from alloc_es.projection import Projection
from alloc_es.reader_errors import ProjectionStopped
from alloc_es.store.recorder import LogName

Standing = Literal[
    "not built", "building", "live", "stopped", "outdated", "not installed", "broken"
]


@dataclass(frozen=True, slots=True)
class ProjectionStatus:
    """How a read model stands.

    `version` is that of the installed projection, `built` that which has built it; None
    where there is none. `positions` are its checkpoints and `ends` the last positions of
    its logs, so it is behind by at most their difference. `writer` applied the last batch,
    at `updated_at` by its clock. `failure` says at which event it is stopped. `rebuilding`
    are the checkpoints of an unfinished build, empty where there is none. `left_out` are
    the tenants that were purged. `problem` is why an installed one can't be loaded.
    """

    name: str
    standing: Standing
    version: int | None
    built: int | None
    positions: Mapping[LogName, int]
    ends: Mapping[LogName, int]
    writer: str | None
    updated_at: datetime | None
    failure: ProjectionStopped | None
    rebuilding: Mapping[LogName, int]
    left_out: tuple[str, ...] = ()
    problem: str = ""

    @property
    def behind(self) -> dict[LogName, int]:
        """How many positions of each log are not applied: at least as many as events.

        While nothing is live, those that the first build has not come to.
        """
        reached = self.positions or self.rebuilding
        return {log: end - reached.get(log, 0) for log, end in self.ends.items()}


def standing_of(
    name: str,
    known: Projection | None,
    builds: Sequence[Build],
    ends: Mapping[LogName, int],
    left_out: Sequence[str],
    problem: str,
) -> ProjectionStatus:
    live = next((b for b in builds if b.state == "live"), None)
    unfinished = next((b for b in builds if b.state == "building" and b.tenant_id is None), None)
    shown_build = live or unfinished
    logs = known.logs if known else tuple(shown_build.positions if shown_build else ())
    failure = shown_build.failure if shown_build else None
    return ProjectionStatus(
        name=name,
        standing="broken" if problem else _word(known, live, unfinished, failure),
        version=known.version if known else None,
        built=live.version if live else None,
        positions=live.positions if live else {},
        ends={log: ends[log] for log in logs},
        writer=shown_build.writer if shown_build else None,
        updated_at=shown_build.updated_at if shown_build else None,
        failure=failure,
        rebuilding=unfinished.positions if unfinished else {},
        left_out=tuple(left_out),
        problem=problem,
    )


def _word(
    known: Projection | None,
    live: Build | None,
    unfinished: Build | None,
    failure: ProjectionStopped | None,
) -> Standing:
    if known is None:
        return "not installed"
    if live is not None and live.version != known.version:
        return "outdated"
    if failure is not None:
        return "stopped"
    if live is None:
        return "building" if unfinished else "not built"
    return "live"
