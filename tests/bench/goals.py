"""What a case is to show, and whether it did."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Values = Mapping[str, Sequence[float]]
"""The figures of each contender of a case, round by round."""

Best = Callable[[Sequence[float]], float]
"""The best of some figures: the smallest times, the largest rates.

What else the machine does can only harm a figure, so ratios are told by the best ones.
"""


class Goal(Protocol):
    """One wish for a case."""

    @property
    def wish(self) -> str:
        """The wish in words."""

    def found(self, values: Values, best: Best) -> float:
        """The figure that the wish is about."""

    def is_met(self, found: float) -> bool:
        """Whether that figure fulfils it."""

    def shown(self, found: float) -> str:
        """That figure, and what it is made of."""


@dataclass(frozen=True, slots=True)
class AtMost:
    """`contender` takes at most `times` what `beside` takes."""

    contender: str
    beside: str
    times: float

    @property
    def wish(self) -> str:
        """The wish in words."""
        return f"{self.contender} at most {self.times:g} × {self.beside}"

    def found(self, values: Values, best: Best) -> float:
        """The ratio of the two best figures."""
        return best(values[self.contender]) / best(values[self.beside])

    def is_met(self, found: float) -> bool:
        """Whether the ratio is small enough."""
        return found <= self.times

    def shown(self, found: float) -> str:
        """The ratio."""
        return f"{found:.2f} ×, by the best figures"


@dataclass(frozen=True, slots=True)
class AsFast:
    """`contender` is at least `times` as fast as the fastest of `beside`."""

    contender: str
    beside: Sequence[str]
    times: float

    @property
    def wish(self) -> str:
        """The wish in words."""
        other = self.beside[0] if len(self.beside) == 1 else "the fastest of the others named"
        return f"{self.contender} at least {self.times:g} × as fast as {other}"

    def found(self, values: Values, best: Best) -> float:
        """How many times as fast it is, by the best figures."""
        own = best(values[self.contender])
        other = best([best(values[name]) for name in self.beside])
        return other / own if best is min else own / other

    def is_met(self, found: float) -> bool:
        """Whether it is fast enough."""
        return found >= self.times

    def shown(self, found: float) -> str:
        """How many times as fast."""
        return f"{found:.2f} ×, by the best figures"


@dataclass(frozen=True, slots=True)
class Within:
    """`contender` never takes more than `limit`, in the unit of its case."""

    contender: str
    limit: float
    unit: str

    @property
    def wish(self) -> str:
        """The wish in words."""
        return f"{self.contender} within {self.limit:g} {self.unit}"

    def found(self, values: Values, best: Best) -> float:  # noqa: ARG002
        """The worst round; a limit is one for all of them."""
        return max(values[self.contender])

    def is_met(self, found: float) -> bool:
        """Whether the worst round kept to it."""
        return found <= self.limit

    def shown(self, found: float) -> str:
        """The worst round."""
        return f"{found:.3g} {self.unit} in the worst round"
