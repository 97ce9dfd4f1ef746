"""How much is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers behind the cases; times are in the unit that their names end with."""

    repetitions: int
    calls: int
    short: int
    long: int
    lengths: tuple[int, ...]
    writers: tuple[int, ...]
    seconds: float
    reading_ms: float
    units: int
    routing_ms: float
    lone_calls: int
    callers: int
    waves: int
    group: int
    lists: int
    spawners: tuple[int, ...]
    flat_out_seconds: float
    idle_decisions: int
    memory_runs: tuple[int, int]
    cached: int
    read_runs: int
    seen_decisions: int
    log_sizes: tuple[int, int]
    starts: int
    mode_stores: int
    mode_rounds: int

    @property
    def crew(self) -> int:
        """How many processes a case uses at most: also two that spawn and one that decides."""
        return max(*self.writers, *self.spawners, 3)


FULL = Scale(
    repetitions=7,
    calls=30,
    short=10,
    long=1_000,
    lengths=(10, 100, 1_000, 10_000),
    writers=(1, 2, 8),
    seconds=0.5,
    reading_ms=25,
    units=5_000,
    routing_ms=60,
    lone_calls=100,
    callers=256,
    waves=4,
    group=1_000,
    lists=5,
    spawners=(1, 2, 4),
    flat_out_seconds=3,
    idle_decisions=200,
    memory_runs=(100_000, 1_000_000),
    cached=10_000,
    read_runs=50_000,
    seen_decisions=200,
    log_sizes=(1_000, 1_000_000),
    starts=6,
    mode_stores=2,
    mode_rounds=3,
)
QUICK = Scale(
    repetitions=2,
    calls=2,
    short=4,
    long=12,
    lengths=(4, 12),
    writers=(1, 2),
    seconds=0.05,
    reading_ms=1,
    units=20,
    routing_ms=0.1,
    lone_calls=3,
    callers=16,
    waves=1,
    group=20,
    lists=1,
    spawners=(1, 2),
    flat_out_seconds=0.1,
    idle_decisions=3,
    memory_runs=(100, 200),
    cached=20,
    read_runs=200,
    seen_decisions=3,
    log_sizes=(100, 400),
    starts=1,
    mode_stores=1,
    mode_rounds=1,
)
