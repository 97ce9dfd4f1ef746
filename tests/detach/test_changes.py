"""The changes are fresh, and the tool finds the ones that are not."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.detach.__main__ import judge
from tests.detach.changes import ROOT, Change, changes
from tests.detach.tree import Tree

TEST = "tests/test_answer.py::test_answer"
EACH = "tests/test_answer.py::test_each"

# What the project's tests do not use takes most of the time of a run.
FEW_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_timeout"}

FILES = {
    "src/answer.py": "def answer():\n    return 42\n",
    "src/lazy.py": "def later():\n    import answer\n    return answer.answer\n",
    "tests/test_answer.py": (
        "import pytest\nfrom answer import answer\n\n\n"
        "def test_answer():\n    assert answer() == 42\n\n\n"
        "@pytest.mark.parametrize('most', [42, 43])\n"
        "def test_each(most):\n    assert answer() <= most\n"
    ),
    "tests/test_lazy.py": ("import lazy\n\n\ndef test_lazy():\n    assert lazy.later()() == 42\n"),
    "tests/__init__.py": "",
    "tests/detach/__init__.py": "",
    "tests/detach/recorder.py": (ROOT / "tests/detach/recorder.py").read_text(),
}


@pytest.mark.parametrize("change", [pytest.param(c, id=c.name) for c in changes()])
def test_every_change_can_still_be_made(change: Change) -> None:
    """Red when the code under a guard was rewritten and its change was not."""
    assert change.problem(ROOT) is None


def test_no_two_changes_have_one_name() -> None:
    """Red when two changes are told apart by their files only."""
    assert [name for name, count in Counter(c.name for c in changes()).items() if count > 1] == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with two modules, tests of them, and the recorder."""
    root = tmp_path / "project"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def verdicts(project: Path, *made: Change) -> list[str | None]:
    found = judge(made, project, project.parent / "scratch", FEW_PLUGINS, 1, quiet=True)
    return [verdict.problem for verdict in found]


def change(old: str, new: str, *tests: str) -> Change:
    return Change(f"{old} to {new}", "src/answer.py", old, new, tests or (TEST,))


def test_changes_that_turn_all_their_tests_red_are_no_finding(project: Path) -> None:
    """Red when a change is left in its copy, where the next one then finds it."""
    made = change("42", "43", TEST, EACH), change("42", "44", TEST, EACH)

    assert verdicts(project, *made) == [None, None]
    assert "42" in (project / "src/answer.py").read_text()


def test_changes_that_prove_nothing_are_found_and_spoil_no_others(project: Path) -> None:
    """Red when a change that stays green, is stale, or breaks an import passes for proof."""
    missing = "tests/test_lazy.py::test_missing"
    unsound = {
        change("return 42", "return 6 * 7"): "does not turn red: passed",
        change("42", "43", f"{EACH}[42]", f"{EACH}[43]"): "[43] does not turn red: passed",
        change("42", "43", f"{EACH}[41]"): "did not run",
        change("42", "43", TEST, missing): f"there is no test {missing}",
        change("41", "43"): "stands 0 times",
        change("return", "retrun", "tests/test_lazy.py::test_lazy"): "SyntaxError",
        change("def answer", "import nothing\ndef answer"): "No module named 'nothing'",
        change("def answer", "def answers"): "does not turn red: did not run",
    }

    *found, sound = verdicts(project, *unsound, change("42", "41"))

    assert sound is None
    for problem, expected in zip(found, unsound.values(), strict=True):
        assert expected in (problem or "no finding")


def test_a_test_that_was_red_before_proves_nothing(project: Path) -> None:
    """Red when the tests are not run without any change first."""
    (project / "tests/test_answer.py").write_text("def test_answer():\n    assert False\n")
    assert "not green" in (verdicts(project, change("42", "43"))[0] or "no finding")


def test_a_copy_whose_tests_would_run_other_code_is_refused(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the copy's own directories do not come first, or nobody looks.

    Without a package of that name in the copy, the one that is installed would answer.
    """
    for name in ("answer", "lazy"):
        (project / "src" / f"{name}.py").unlink()
    (project / "src" / "alloc_es").mkdir()
    (project / "src" / "alloc_es" / "__init__.py").touch()
    Tree(project, tmp_path / "own")

    monkeypatch.setattr(Tree, "_environment", lambda _: {})
    with pytest.raises(RuntimeError, match="would import alloc_es from"):
        Tree(project, tmp_path / "other")
