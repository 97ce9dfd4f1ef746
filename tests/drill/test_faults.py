"""Faults: what is done to whom, and that only what has happened is counted."""

from collections import Counter
from collections.abc import Mapping

import pytest

from alloc_es.drill.account import Account
from alloc_es.drill.crew import Crew
from alloc_es.drill.faults import Faults
from alloc_es.drill.network import Commit, Network
from alloc_es.drill.plan import CLOCK_STEP, Fault, FaultKind, Moment
from tests.drill.fakes import Member, crew_of


class Wires(Network):
    """A network with so many connections, of which no commit is lost unless a test says so."""

    def __init__(self, connections: int) -> None:
        self.connections = connections
        self.ordered: list[Commit] = []
        self.struck: list[FaultKind] = []
        self.met: dict[FaultKind, int] = {}

    def lose_reply(self, of: Commit) -> None:
        self.ordered.append(of)

    def cut(self) -> int:
        self.struck.append("cut")
        return self.connections

    def terminate(self) -> int:
        self.struck.append("termination")
        return self.connections

    @property
    def lost(self) -> Mapping[FaultKind, int]:
        return self.met


def faults_on(account: Account, crew: Crew, network: Network | None = None) -> Faults:
    return Faults(
        crew,
        account,
        network or Network(),
        names=["ada"],
        restart=None,
        probe=lambda: True,
        tell=lambda _: None,
    )


@pytest.mark.parametrize(
    ("moment", "point"),
    [
        ("before commit", "before append"),
        ("after commit", "after append"),
        ("before answer", "before answer"),
    ],
)
def test_a_trap_counts_for_nothing_until_somebody_has_died_in_it(
    moment: Moment, point: str
) -> None:
    """Red when an order counts as a kill, or a trap is set at another point."""
    account, ada = Account(), Member("drill-1-ada", 1)
    faults = faults_on(account, crew_of(account, ada=[ada]))
    fault = Fault("kill", 0, 0.0, moment)
    faults.prepare([fault])
    faults.strike([fault])
    faults.count_lost()
    assert ada.done == [(point, "kill")]
    assert account.faults == Counter()


@pytest.mark.parametrize("moment", ["before commit", None])
def test_whom_the_drill_kills_nobody_else_has_killed(moment: Moment | None) -> None:
    """Red when the drill does not note whom it kills, now or by a trap, before it can happen."""
    account, ada = Account(), Member("drill-1-ada", 1)
    crew = crew_of(account, ada=[ada])
    ada.on_kill = lambda: ada.die(-9)
    faults = faults_on(account, crew)
    fault = Fault("kill", 0, 0.0, moment)
    faults.prepare([fault])
    faults.strike([fault])
    ada.die(-9)
    crew.end()
    assert (account.faults["kill"], account.deaths) == (1, [])


def test_losses_count_when_they_have_met_a_commit() -> None:
    """Red when an ordered loss counts, whether anything was lost or not."""
    account, ada, network = Account(), Member("drill-1-ada", 1), Wires(0)
    faults = faults_on(account, crew_of(account, ada=[ada]), network)
    faults.prepare([Fault("lost reply", 0, 0.0), Fault("lost reply", 1, 0.0)])
    assert network.ordered == ["decision", "runs"]
    assert account.faults == Counter()
    network.met = {"lost reply": 1}
    faults.count_lost()
    assert account.faults == {"lost reply": 1}


@pytest.mark.parametrize("kind", ["cut", "termination"])
def test_connections_that_are_not_there_are_not_broken(kind: FaultKind) -> None:
    """Red when a cut, or a termination, counts that has met no connection."""
    account, ada, network = Account(), Member("drill-1-ada", 1), Wires(0)
    faults = faults_on(account, crew_of(account, ada=[ada]), network)
    faults.strike([Fault(kind, 0, 0.0)])
    assert account.faults == Counter()
    network.connections = 3
    faults.strike([Fault(kind, 0, 0.0)])
    assert account.faults == {kind: 1}


def test_a_clock_goes_wrong_and_right_again_and_a_new_one_is_right() -> None:
    """Red when a step changes nothing, because the clock was wrong by as much before."""
    account = Account()
    ada, successor = Member("drill-1-ada", 1), Member("drill-1-ada", 2)
    faults = faults_on(account, crew_of(account, ada=[ada, successor]))
    step = Fault("clock step", 0, 0.0, clock=CLOCK_STEP)
    for _ in range(3):
        faults.prepare([step])
    ada.die(-9)
    faults.prepare([step])
    assert ada.done == [("clock", CLOCK_STEP), ("clock", 0.0), ("clock", CLOCK_STEP)]
    assert successor.done == [("clock", CLOCK_STEP)]
    assert account.faults["clock step"] == 4


def test_who_died_while_it_was_stopped_was_not_paused() -> None:
    """Red when a pause counts that nobody has lived through."""
    account, ada = Account(), Member("drill-1-ada", 1)
    faults = faults_on(account, crew_of(account, ada=[ada]))
    faults.strike([Fault("pause", 0, 0.0)])
    assert ada.done == [("pause",), ("resume",)]
    assert account.faults == {"pause": 1}
    ada.on_resume = lambda: ada.die(-9)
    faults.strike([Fault("pause", 0, 0.0)])
    assert account.faults == {"pause": 1}


def test_a_disk_is_full_for_a_while() -> None:
    """Red when it stays full, so that doubt lasts for ever, or counts before it was."""
    account, ada = Account(), Member("drill-1-ada", 1)
    faults = faults_on(account, crew_of(account, ada=[ada]))
    fault = Fault("full disk", 0, 0.0)
    faults.prepare([fault])
    assert account.faults == Counter()
    faults.strike([fault])
    assert ada.done == [("full disk", True), ("full disk", False)]
    assert account.faults == {"full disk": 1}


def test_each_of_a_round_strikes_in_its_turn() -> None:
    """Red when the order of the plan is the order of the blows."""
    account, network = Account(), Wires(1)
    crew = crew_of(account, ada=[Member("drill-1-ada", 1)])
    faults = faults_on(account, crew, network)
    faults.strike([Fault("cut", 0, 0.002), Fault("termination", 0, 0.001)])
    assert network.struck == ["termination", "cut"]


def test_a_store_without_a_server_has_nothing_to_break() -> None:
    """Red when what can't befall a file counts as if it had."""
    network = Network()
    assert (network.cut(), network.terminate(), network.started_at()) == (0, 0, None)
    assert not network.lost
