"""Digests over a log, block by block, so that parts of it can be digested side by side."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from alloc_es import codec
from alloc_es.events import Event, Recorded
from alloc_es.evidence import Unreadable
from alloc_es.store.log import BLOCK


class BlockDigests:
    """The SHA-256 of each block of a log; add events in the order of their positions.

    Block n is of the positions from 10,000 n + 1 to 10,000 (n + 1). Its digest is over one
    line for each of its events, in UTF-8, each ended by a line feed: position, stored name,
    stream, version and the event's own digest, parted by single blanks.
    """

    def __init__(self, after: int, up_to: int) -> None:
        self.range = after, up_to
        self._block = -1
        self._lines: list[str] = []
        self.events = 0
        """How many events are within the range."""
        self._digests: dict[int, str] = {}

    def add(self, position: int, name: str, stream: str, version: int, digest: str) -> None:
        """Take in the next event, if it is within the range."""
        if not self.range[0] < position <= self.range[1]:
            return
        block = (position - 1) // BLOCK
        if block != self._block:
            self.finish()
            self._block = block
        self._lines.append(f"{position} {name} {stream} {version} {digest}\n")
        self.events += 1

    def add_event(self, each: Recorded[Event] | Unreadable) -> None:
        """Take in the next row, as it was read."""
        if isinstance(each, Unreadable):
            error = each.error
            self.add(each.position, error.topic, error.stream, error.version, each.digest)
            return
        event = each.event
        name = codec.stored_name(event)
        stream, version = event.originator_id, event.originator_version
        self.add(each.position, name, stream, version, each.digest)

    def finish(self) -> Mapping[int, str]:
        """Block → its digest in hexadecimal; a block without events has none."""
        if self._lines:
            text = "".join(self._lines).encode()
            self._digests[self._block] = sha256(text).hexdigest()
            self._lines.clear()
        return self._digests


def blocks_of(after: int, up_to: int) -> range:
    """The blocks that the positions `(after, up_to]` fall into."""
    return range(after // BLOCK, -(-up_to // BLOCK))


def in_order(after: int, up_to: int, digests: Mapping[int, str]) -> list[str]:
    """The digests of all blocks of a range; the SHA-256 of nothing for one without events."""
    return [digests.get(block, _NOTHING) for block in blocks_of(after, up_to)]


def root(blocks: Sequence[str]) -> str:
    """The SHA-256 over the blocks' digests in hexadecimal, each ended by a line feed."""
    return sha256("".join(f"{block}\n" for block in blocks).encode()).hexdigest()


_NOTHING = sha256(b"").hexdigest()
