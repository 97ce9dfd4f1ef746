"""What was measured: as tables in Markdown, as JSON, and in the documentation."""

import os
import platform
import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from tests.bench.measuring import Figure, Outcome

DOCUMENT = Path(__file__).parents[2] / "docs" / "explanation" / "performance.md"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"

_PACKAGES = ("psycopg", "eventsourcing", "pydantic")


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
        **{package: version(package) for package in _PACKAGES},
    }


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
    return "\n\n".join([heading, "\n".join(rows), *_goal(outcome)])


def write_document(text: str, document: Path = DOCUMENT) -> None:
    """Put the tables between the document's two markers."""
    old = document.read_text()
    between = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.S)
    if not between.search(old):
        raise RuntimeError(f"{document} has no line {BEGIN} and, behind it, {END}")
    document.write_text(between.sub(lambda _: f"{BEGIN}\n\n{text}\n\n{END}", old))


def _goal(outcome: Outcome) -> list[str]:
    goal, ratio = outcome.case.goal, outcome.goal_ratio
    if goal is None or ratio is None:
        return []
    verdict = "met" if ratio <= goal.at_most else "**missed**"
    wish = f"{goal.contender} at most {goal.at_most:g} × {goal.beside}"
    return [f"Goal: {wish}; {verdict} at {ratio:.2f} ×, by the smallest figures."]


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
    goal = outcome.case.goal
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
        "goal": None
        if goal is None
        else {
            "contender": goal.contender,
            "beside": goal.beside,
            "at_most": goal.at_most,
            "ratio": outcome.goal_ratio,
        },
    }
