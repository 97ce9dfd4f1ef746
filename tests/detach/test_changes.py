"""The changes are fresh, and the tool finds the ones that are not."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.detach.__main__ import judge
from tests.detach.changes import ROOT, Change, changes

TEST = "tests/test_answer.py::test_answer"


@pytest.mark.parametrize("change", [pytest.param(c, id=c.name) for c in changes()])
def test_every_change_can_still_be_made(change: Change) -> None:
    """Red when the code under a guard was rewritten and its change was not."""
    assert change.problem(ROOT) is None


def test_no_two_changes_have_one_name() -> None:
    assert [name for name, count in Counter(c.name for c in changes()).items() if count > 1] == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with one function, one test of it, and the recorder."""
    files = {
        "src/answer.py": "def answer():\n    return 42\n",
        "tests/test_answer.py": (
            "from answer import answer\n\n\ndef test_answer():\n    assert answer() == 42\n"
        ),
        "tests/__init__.py": "",
        "tests/detach/__init__.py": "",
        "tests/detach/recorder.py": (ROOT / "tests/detach/recorder.py").read_text(),
    }
    root = tmp_path / "project"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def verdict(project: Path, change: Change) -> str | None:
    (only,) = judge([change], project, project.parent / "scratch", {}, 1, quiet=True)
    return only.problem


def change(old: str, new: str, test: str = TEST) -> Change:
    return Change("a change", "src/answer.py", old, new, (test,))


def test_a_change_that_turns_its_test_red_is_no_finding(project: Path) -> None:
    assert verdict(project, change("42", "43")) is None
    assert "42" in (project / "src/answer.py").read_text()


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (change("return 42", "return 6 * 7"), "passed"),
        (change("41", "43"), "stands 0 times"),
        (change("4", "5", "tests/test_answer.py::test_other"), "no test"),
        (change("def answer", "def answers"), "did not run"),
    ],
)
def test_a_change_that_proves_nothing_is_found(project: Path, made: Change, problem: str) -> None:
    """Red when a change that stays green, is stale, or breaks the import passes for proof."""
    assert problem in (verdict(project, made) or "no finding")


def test_a_test_that_was_red_before_proves_nothing(project: Path) -> None:
    (project / "tests/test_answer.py").write_text("def test_answer():\n    assert False\n")
    assert "not green" in (verdict(project, change("42", "43")) or "no finding")
