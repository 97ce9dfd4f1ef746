"""What was measured: as tables in Markdown, as JSON, and in the documentation."""

import os
import platform
import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from tests.bench.goals import Goal
from tests.bench.measuring import Figure, Outcome
from tests.bench.peers import PEERS

DOCUMENT = Path(__file__).parents[2] / "docs" / "explanation" / "performance.md"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"

_PACKAGES = ("psycopg", "eventsourcing", "pydantic", *(peer.package for peer in PEERS))


def surroundings(server_url: str) -> dict[str, str]:
    """What the figures depend on, apart from the code."""
    with psycopg.connect(server_url) as connection:
        server = connection.info.server_version
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
        "PostgreSQL": f"{server // 10_000}.{server % 10_000}",
        "SQLite": sqlite3.sqlite_version,
        **{package: found for package in _PACKAGES if (found := _installed(package))},
    }


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def as_json(outcomes: Sequence[Outcome], facts: dict[str, str]) -> dict[str, Any]:
    """Everything, every repetition included."""
    return {"surroundings": facts, "cases": [_case_as_json(outcome) for outcome in outcomes]}


def as_markdown(outcomes: Sequence[Outcome], facts: dict[str, str]) -> str:
    """A line on the surroundings and a table for each case."""
    known = ", ".join(f"{name} {value}" for name, value in facts.items())
    return "\n\n".join([f"`make bench`, {known}.", *(table(outcome) for outcome in outcomes)])


def table(outcome: Outcome) -> str:
    """A case's heading, its table and what became of its goal."""
    case = outcome.case
    heading = f"### {case.name}"
    if case.note:
        heading += f"\n\n{case.note[0].upper()}{case.note[1:]}."
    first = case.contenders[0].name
    rows = [
        f"| | {case.unit}: median (min–max) | ÷ {first} |",
        "|---|---:|---:|",
        *(
            f"| {figure.contender} | {_spread(figure.values)} | {_ratio(figure)} |"
            for figure in outcome.figures
        ),
    ]
    goals = [_goal(goal, found) for goal, found in outcome.verdicts()]
    return "\n\n".join([heading, "\n".join(rows), *goals])


def write_document(text: str, document: Path = DOCUMENT) -> None:
    """Put the tables between the document's two markers."""
    old = document.read_text()
    between = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.S)
    if not between.search(old):
        raise RuntimeError(f"{document} has no line {BEGIN} and, behind it, {END}")
    document.write_text(between.sub(lambda _: f"{BEGIN}\n\n{text}\n\n{END}", old))


def _goal(goal: Goal, found: float) -> str:
    verdict = "met" if goal.is_met(found) else "**missed**"
    return f"Goal: {goal.wish}; {verdict} at {goal.shown(found)}."


def _spread(values: Sequence[float]) -> str:
    return f"{_number(median(values))} ({_number(min(values))}–{_number(max(values))})"


def _ratio(figure: Figure) -> str:
    return f"{_number(median(figure.ratios))} ×"


def _number(value: float) -> str:
    """Three digits, or all in front of the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{2 if value < 10 else 1}f}" if value >= 1 else f"{value:.3f}"


def _case_as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.case.name,
        "unit": outcome.case.unit,
        "contenders": [
            {
                "name": figure.contender,
                "median": median(figure.values),
                "min": min(figure.values),
                "max": max(figure.values),
                "values": list(figure.values),
                "ratio": median(figure.ratios),
            }
            for figure in outcome.figures
        ],
        "goals": [
            {"wish": goal.wish, "found": found, "met": goal.is_met(found)}
            for goal, found in outcome.verdicts()
        ],
    }
