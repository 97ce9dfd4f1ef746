"""The thread budget: how large it is, who has it, and when it is given back."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from alloc_es import InvalidSetting, StoreUnavailable
from alloc_es.harness import (
    Launcher,
    ParticipantNotStarted,
    ThreadBudgetSpent,
    UnknownParticipant,
    physical_cores,
)
from alloc_es.harness.budget import Budget
from alloc_es.harness.cores import cores_told_by

SIBLINGS = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
HYPERTHREADED = {SIBLINGS.format(n): f"{n % 4},{n % 4 + 4}" for n in range(8)}


def tree(root: Path, files: Mapping[str, str]) -> Path:
    """A file system of these files."""
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("files", "usable", "cores"),
    [
        (HYPERTHREADED, range(8), 4),
        (HYPERTHREADED, (1, 5, 2), 2),
        ({}, range(6), 6),
        (HYPERTHREADED | {"sys/fs/cgroup/cpu.max": "150000 100000"}, range(8), 2),
        (HYPERTHREADED | {"sys/fs/cgroup/cpu.max": "max 100000"}, range(8), 4),
        (HYPERTHREADED | {"sys/fs/cgroup/cpu.max": "1000 100000"}, range(8), 1),
        (
            HYPERTHREADED
            | {
                "proc/self/cgroup": "0::/a.slice/b",
                "sys/fs/cgroup/a.slice/cpu.max": "200000 100000",
            },
            range(8),
            2,
        ),
        (
            HYPERTHREADED
            | {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            range(8),
            3,
        ),
        (HYPERTHREADED | {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1"}, range(8), 4),
        ({}, (), 1),
    ],
)
def test_cores_are_the_physical_ones_that_the_process_may_use(
    tmp_path: Path, files: Mapping[str, str], usable: tuple[int, ...], cores: int
) -> None:
    """Red when hyperthreads count as cores, or a limit of the process is not heeded."""
    assert cores_told_by(tree(tmp_path, files), usable) == cores


def test_the_budget_is_four_threads_for_each_core_by_default(sqlite_url: str) -> None:
    """Red when the default is a constant, or counts something else."""
    with Launcher(sqlite_url) as launcher:
        assert launcher.budget.threads == 4 * physical_cores()


def test_threads_are_handed_out_and_refused_when_they_are_spent(sqlite_url: str) -> None:
    """Red when more run than there is budget for, or the refusal does not say who has it."""
    with Launcher(sqlite_url, threads=4) as launcher:
        launcher.start("s1", "scheduler", ["acme"], mode="thread", threads=3)
        with pytest.raises(ThreadBudgetSpent) as refused:
            launcher.start("s2", "scheduler", ["acme"], mode="thread", threads=2)
        error = refused.value
        assert (error.name, error.asked, error.budget, error.given) == ("s2", 2, 4, {"s1": 3})
        assert "s2 needs 2 of 4 threads and 1 are left (s1 has 3)" in str(error)
        assert launcher.allocations.newest_incarnation("s2") is None
        launcher.start("s2", "scheduler", ["acme"], mode="thread", threads=1)
        assert launcher.budget.given == {"s1": 3, "s2": 1}
        said = "<Budget, 4 of 4 threads given, s1 has 3, s2 has 1>"
        assert repr(launcher.budget) == said
        where = launcher.allocations.store
        assert repr(launcher) == f"<Launcher on {where}, 2 participants, {said}>"
        launcher.stop("s2", "a test")
        with pytest.raises(UnknownParticipant, match=r"those that were are 's1', 's2' \(ended\)"):
            launcher.participant("s3")


def test_what_was_stopped_gives_its_threads_back(sqlite_url: str) -> None:
    """Red when the threads of a participant that has ended are lost."""
    with Launcher(sqlite_url, threads=1) as launcher:
        for mode in ("thread", "in_process"):
            launcher.start(mode, "scheduler", ["acme"], mode=mode)
            assert launcher.stop(mode, "done")
            assert launcher.budget.given == {}


@pytest.mark.parametrize("mode", ["in_process", "thread"])
def test_a_failed_start_takes_no_threads_and_says_why(mode: str, sqlite_url: str) -> None:
    """Red when a start that failed holds its name or its threads."""
    opener = "tests.harness.openers:broken"
    with Launcher(sqlite_url, threads=1, opener=opener) as launcher:
        for _ in range(2):
            with pytest.raises(ParticipantNotStarted) as refused:
                launcher.start("s1", "scheduler", ["acme"], mode=mode)  # type: ignore[arg-type]
            assert refused.value.problem == "LookupError: the shelf is empty"
        assert launcher.budget.given == {}
        assert dict(launcher.participants) == {}


def test_a_start_on_a_store_that_is_gone_takes_nothing(sqlite_url: str, tmp_path: Path) -> None:
    """Red when the name and the threads are kept for what never began."""
    with Launcher(sqlite_url, threads=1) as launcher:
        for file in tmp_path.glob("alloc.db*"):
            file.unlink()
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                launcher.start("s1", "scheduler", ["acme"])
        assert launcher.budget.given == {}


@pytest.mark.parametrize("mode", ["in_process", "thread"])
def test_a_store_in_memory_has_no_participants(mode: str) -> None:
    """Red when two participants of one connection pass for two."""
    with Launcher("memory:", threads=1) as launcher:
        with pytest.raises(ParticipantNotStarted, match="memory: has one connection"):
            launcher.start("s1", "scheduler", ["acme"], mode=mode)  # type: ignore[arg-type]
        assert launcher.budget.given == {}


def test_a_restart_keeps_the_threads_when_no_others_are_left(sqlite_url: str) -> None:
    """Red when the threads are free between the two lives, for anybody to take."""
    taken: list[object] = []
    with Launcher(sqlite_url, threads=2) as launcher:
        first = launcher.start("s1", "scheduler", ["acme"], mode="thread", threads=2)

        def intrude(name: str) -> None:
            with pytest.raises(ThreadBudgetSpent):
                Budget.take(launcher.budget, "s2", 1)
            taken.append(name)

        genuine = launcher.allocations.new_incarnation

        def beginning(name: str) -> object:
            intrude(name)
            return genuine(name)

        launcher.allocations.new_incarnation = beginning  # type: ignore[method-assign,assignment]
        second = launcher.restart("s1", "a test")
        assert taken == ["s1"]
        assert (first.incarnation.number, second.incarnation.number) == (1, 2)
        assert (second.threads, launcher.budget.given) == (2, {"s1": 2})
        assert first.ended == "a test"


def test_taking_more_than_is_left_changes_nothing() -> None:
    """Red when a refused restart has given its threads away."""
    budget = Budget(3)
    budget.take("s1", 2)
    with pytest.raises(ThreadBudgetSpent):
        budget.take("s1", 4)
    assert budget.given == {"s1": 2}
    budget.take("s1", 3)
    assert budget.given == {"s1": 3}


@pytest.mark.parametrize("threads", [0, -1, 10_001, True, "4"])
def test_a_budget_is_a_number_of_threads(threads: object, sqlite_url: str) -> None:
    """Red when a launcher can be made that can start nobody, or a participant of no threads."""
    with pytest.raises(InvalidSetting):
        Launcher(sqlite_url, threads=threads)  # type: ignore[arg-type]
    with Launcher(sqlite_url, threads=1) as launcher, pytest.raises(InvalidSetting):
        launcher.start("s1", "scheduler", ["acme"], threads=threads)  # type: ignore[arg-type]
