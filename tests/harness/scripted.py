"""A participant of which the test plays the other end of the pipe."""

import os
import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from signal import Signals
from threading import Event, Thread

from alloc_es import Incarnation, WorkflowKey
from alloc_es.harness import Done, Identity, Participant, Read, Refused, Request
from alloc_es.harness.protocol import Answer, Ask, Message, Opening, Reply, Up

KEY = WorkflowKey.parse("acme", "triage")
READ = Read(KEY)
SECONDS = 30.0
"""How long tests wait for what must come."""

Reaction = Callable[[Message], list[Reply]]


class Body:
    """What runs the participant, as its launcher sees it; `exit_code` is the test's to set."""

    pid: int | None = None

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.over = Event()

    def wait(self) -> None:
        """Wait until the test lets it be over."""
        self.over.wait()

    def signal(self, number: Signals) -> bool:  # noqa: ARG002
        """It can't be sent one."""
        return False


@dataclass
class Scripted:
    """The participant, and what was said to it and asked of the log."""

    participant: Participant
    body: Body
    far_end: Connection
    said: SimpleQueue[Message]
    looked: list[str] = field(default_factory=list)

    def hears(self) -> Message:
        """The next message that arrived; fails when none does."""
        return self.said.get(timeout=SECONDS)

    def dies(self, exit_code: int = -9) -> None:
        """End as a process does that is killed."""
        self.body.exit_code = exit_code
        self.body.over.set()
        hang_up(self.far_end)


def opening(
    role: str = "scheduler", name: str = "s1", tenants: tuple[str, ...] = ("acme",)
) -> Opening:
    """What a participant would be opened with that opens no store."""
    identity = Identity.parse(name, role, tenants)
    return Opening(identity, Incarnation(name, 7), "memory:", "nothing:opens", 1.0, 1, 1)


@contextmanager
def scripted(
    reaction: Reaction,
    *,
    found: Done | Refused | None = None,
    role: str = "scheduler",
) -> Iterator[Scripted]:
    """A participant that does what `reaction` says; its log says `found` of every request."""
    ours, theirs = Pipe()
    said: SimpleQueue[Message] = SimpleQueue()
    looked: list[str] = []
    ids = count(1)

    def look(_: Request, request_id: str) -> Done | Refused | None:
        looked.append(request_id)
        return found

    body = Body()
    participant = Participant(
        opening(role),
        "thread",
        ours,
        body,
        look,
        lambda: f"request-{next(ids)}",
        lambda _: None,
    )
    player = Thread(target=_play, args=(theirs, reaction, said), daemon=True)
    player.start()
    participant.await_up(SECONDS)
    yield Scripted(participant, body, theirs, said, looked)
    body.over.set()
    hang_up(theirs)


def hang_up(connection: Connection) -> None:
    """End a pipe from which another thread may be reading."""
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


def _play(theirs: Connection, reaction: Reaction, said: SimpleQueue[Message]) -> None:
    with theirs, suppress(EOFError, OSError):
        theirs.recv()
        theirs.send(Up())
        while True:
            message = theirs.recv()
            said.put(message)
            for reply in reaction(message):
                theirs.send(reply)


def silent(_: Message) -> list[Reply]:
    """React to nothing."""
    return []


def answer(message: Ask, answered: object = "done") -> Answer:
    """The answer that a request was carried out."""
    return Answer(message.request_id, pickle.dumps(Done(answered)), in_doubt=False)


def prompt(message: Message) -> list[Reply]:
    """Answer every request at once."""
    return [answer(message)] if isinstance(message, Ask) else []
