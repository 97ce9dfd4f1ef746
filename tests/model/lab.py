"""The stores that the machine's examples share, because opening one is dear."""

from collections import Counter

from alloc_es import Allocations
from tests.model.sides import Side, Sources, beside, connect


class Lab:
    """One durable store for all examples, which keep apart by their tenants' names."""

    def __init__(self, url: str) -> None:
        self.sources = Sources()
        self.reached: Counter[str] = Counter()
        self._url = url
        self._tenants = 0
        self._open: dict[int, tuple[Allocations, Allocations]] = {}

    def new_tenant(self) -> str:
        self._tenants += 1
        return f"tenant-{self._tenants}"

    def memory(self, limit: int) -> Side:
        first = connect("memory:", self.sources, limit)
        return Side(first, beside(first, self.sources, limit))

    def durable(self, limit: int) -> Side:
        """The durable store, through the connections that are open."""
        if limit not in self._open:
            self._open[limit] = (
                connect(self._url, self.sources, limit),
                connect(self._url, self.sources, limit),
            )
        return Side(*self._open[limit])

    def reopened(self, limit: int) -> Side:
        """The durable store, through new connections."""
        for allocations in self._open.pop(limit):
            allocations.close()
        return self.durable(limit)

    def close(self) -> None:
        for limit in tuple(self._open):
            for allocations in self._open.pop(limit):
                allocations.close()
