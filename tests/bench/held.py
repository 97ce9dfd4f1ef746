"""Connections that are held for a measurement and closed after it."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Held(ABC):
    """Used in a `with` statement, which closes it."""

    @abstractmethod
    def close(self) -> None:
        """Give back the connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
