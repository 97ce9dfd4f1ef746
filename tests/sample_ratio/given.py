"""Epochs, from the shares of their arms in percent and what each got."""

from alloc_es.sample_ratio import Epoch, SampleRatio, sample_ratio


def epoch(generation: int = 2, **arms: tuple[float, int]) -> Epoch:
    """The control first; each arm's share and its units."""
    shares = {version: round(share * 100) for version, (share, _) in arms.items()}
    return Epoch(1, generation, shares, {version: units for version, (_, units) in arms.items()})


def at_95_5(control: int, challenger: int, *, alpha: float = 0.01, tests: int = 1) -> SampleRatio:
    """What is said of one challenger with 5 %."""
    epochs = [epoch(v1=(95, control), v2=(5, challenger))]
    return sample_ratio(epochs, alpha=alpha, tests=tests)
