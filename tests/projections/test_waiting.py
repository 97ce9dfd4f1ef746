"""`wait_for`: a caller reads its own write, or is told why not."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from alloc_es import (
    Allocations,
    InvalidSetting,
    Patience,
    ProjectionBehind,
    ProjectionStopped,
    connect,
)
from tests.projections.models import refusing, seen
from tests.projections.reading import rows
from tests.projections.writing import spawn


class Clock:
    """A monotonic clock that goes on by what is slept, and calls something at each sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self.at_sleep: Callable[[], object] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.at_sleep()

    def patience(self) -> Patience:
        return Patience(10.0, sleep=self.sleep, monotonic=lambda: self.now)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def waiting(store_url: str, clock: Clock) -> Iterator[Allocations]:
    """A store whose patience is the clock's."""
    with connect(store_url, actor="ada", patience=clock.patience()) as opened:
        opened.workflow("acme", "triage").start("v1")
        yield opened


def test_it_returns_at_once_where_all_is_applied(waiting: Allocations, clock: Clock) -> None:
    """Red when it waits before it looks."""
    spawn(waiting, waiting.workflow("acme", "triage"), "abc")
    models = waiting.projections()
    models.catch_up()
    for name in models.known:
        models.wait_for(name)
    models.wait_for("run_ledger", 3)
    models.wait_for("decision_history", 1, log="decisions", timeout=0.001)
    models.wait_for("decision_history", 2, log="runs")
    assert clock.now == 0


def test_it_returns_when_the_position_is_applied(waiting: Allocations, clock: Clock) -> None:
    """Red when it waits for less, or sleeps on when it is there."""
    models = waiting.projections()
    models.catch_up()
    workflow, numbers = waiting.workflow("acme", "triage"), count(1)

    def apply_one_more() -> None:
        spawn(waiting, workflow, [str(next(numbers))])
        models.catch_up("run_ledger")

    clock.at_sleep = apply_one_more
    models.wait_for("run_ledger", 3)
    assert len(rows(waiting, "run_ledger")) == 3


def test_without_a_position_it_waits_for_all_that_is_in_the_logs_now(
    waiting: Allocations, clock: Clock
) -> None:
    """Red when one log is enough, or what comes while it waits counts too."""
    models = waiting.projections()
    models.catch_up()
    workflow, numbers = waiting.workflow("acme", "triage"), count(1)
    workflow.register_challenger("v2")
    spawn(waiting, workflow, "ab")

    def bring_up() -> None:
        models.catch_up("decision_history")
        spawn(waiting, workflow, [str(next(numbers))])

    clock.at_sleep = bring_up
    models.wait_for("decision_history")
    assert next(numbers) == 2
    assert sum(row[4] for row in rows(waiting, "tenure_runs")) == 2


def test_who_waits_in_vain_is_told_how_far_the_model_is(waiting: Allocations, clock: Clock) -> None:
    """Red when it waits longer, or for ever, or does not say for what."""
    models = waiting.projections()
    with pytest.raises(ProjectionBehind) as nowhere:
        models.wait_for("current_split", 1, timeout=0.25)
    error = nowhere.value
    assert (error.name, error.log, error.position, error.reached, error.seconds) == (
        *("current_split", "decisions", 1, None, 0.25),
    )
    assert 0.25 <= clock.now < 0.3
    models.catch_up()
    spawn(waiting, waiting.workflow("acme", "triage"), "ab")
    with pytest.raises(ProjectionBehind) as behind:
        models.wait_for("decision_history", timeout=1)
    assert (behind.value.log, behind.value.position, behind.value.reached) == ("runs", 2, 0)
    assert clock.now >= 1.25


def test_who_waits_for_what_will_not_come_is_told_at_once(
    waiting: Allocations, clock: Clock
) -> None:
    """Red when a projection that is stopped is waited for all the time, also by those who wait
    for the log behind the one that it is stopped in.
    """
    own = {"name": "mine", "logs": ("decisions", "runs")}

    def no_runs(entries: object, rows: object) -> None:
        """Runs leave nothing."""

    sound = seen(no_runs, **own)
    waiting.projections(sound).catch_up("mine")
    waiting.workflow("acme", "b").start("v1")
    spawn(waiting, waiting.workflow("acme", "b"), "ab")
    models = waiting.projections(seen(refusing(bool), **own))
    with pytest.raises(ProjectionStopped):
        models.catch_up("mine")
    for position, log in ((2, "decisions"), (1, "runs"), (None, "runs"), (None, None)):
        with pytest.raises(ProjectionStopped) as raised:
            models.wait_for("mine", position, log=log)  # type: ignore[arg-type]
        assert (raised.value.log, raised.value.position) == ("decisions", 2)
    models.wait_for("mine", 1, log="decisions")
    assert clock.now == 0


def test_who_waits_for_a_first_build_that_is_stopped_is_told_at_once(
    waiting: Allocations, clock: Clock
) -> None:
    """Red when only the live build's failure counts."""
    models = waiting.projections(seen(refusing(bool)))
    with pytest.raises(ProjectionStopped):
        models.catch_up("seen")
    with pytest.raises(ProjectionStopped):
        models.wait_for("seen")
    assert clock.now == 0


def test_what_can_not_be_waited_for_is_refused(waiting: Allocations) -> None:
    """Red when a position of no log, or of either, is taken."""
    models = waiting.projections()
    with pytest.raises(InvalidSetting, match="follows both; say of which log"):
        models.wait_for("decision_history", 1)
    with pytest.raises(InvalidSetting, match="run_ledger does not follow"):
        models.wait_for("run_ledger", 1, log="decisions")
    with pytest.raises(InvalidSetting, match="is not installed; there is current_split"):
        models.wait_for("run_leger")
    for position in (-1, 1.5, "1", True):
        with pytest.raises(InvalidSetting):
            models.wait_for("run_ledger", position)  # type: ignore[arg-type]
