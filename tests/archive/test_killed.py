"""Kill -9 an archiver at any moment: either nothing has left the log, or the archive is whole."""

from pathlib import Path
from signal import SIGKILL

import pytest

from alloc_es import RunArchived, archiving
from alloc_es.archives import MANIFEST
from alloc_es.archiving import archive
from tests.archive import victims
from tests.archive.filling import KEY, Filled
from tests.support.children import start_child

UP_TO = 10

WHILE_WRITING = [victims.A_FILE_IS_NOT_WHOLE, victims.NO_MANIFEST]
BETWEEN_TRANSACTIONS = [victims.NOT_RECORDED, victims.IDS_ARE_KEPT, victims.COMMITTED]


def test_an_archiver_that_is_killed_inside_of_the_transaction_has_taken_nothing(
    store: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when runs leave the log before their archive is recorded with them."""
    goes_on(store, victims.TAKEN_OUT, monkeypatch)


@pytest.mark.parametrize("point", [*WHILE_WRITING, *BETWEEN_TRANSACTIONS])
def test_the_same_call_goes_on_where_an_archiver_was_killed(
    sqlite_store: Filled, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a file counts before it is whole, when what was left is refused, or written
    again although it was whole, and when ids may be kept only once.
    """
    goes_on(sqlite_store, point, monkeypatch)


def goes_on(store: Filled, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, up_to = store.home / "first", store.runs[UP_TO - 1].position
    kill_at(store, point, directory, up_to)
    is_done = point == victims.COMMITTED
    require_all_or_nothing(store, is_done)
    before = stamps(directory)
    assert (MANIFEST in before) == (point not in WHILE_WRITING)
    monkeypatch.setattr(archiving, "SPAN", victims.SPAN)
    made = archive(store.allocations, directory, up_to=up_to)
    assert made is not None
    assert (made.runs, made.up_to) == (UP_TO, up_to)
    assert {name: stamp for name, stamp in stamps(directory).items() if name in before} == before
    assert len(list(directory.iterdir())) == -(-up_to // victims.SPAN) + 1
    require_all_or_nothing(store, True)
    assert archive(store.allocations, directory, up_to=up_to) == made


def kill_at(store: Filled, point: str, directory: Path, up_to: int) -> None:
    child, pipe = start_child(victims.be_killed, store.url, str(directory), up_to, point)
    assert pipe.recv() == point
    child.kill()
    child.join()
    assert child.exitcode == -SIGKILL


def require_all_or_nothing(store: Filled, is_archived: bool) -> None:
    """Every run is told as it was, from the log or from the archive, and none is given twice."""
    with store.reopened(*(["first"] if is_archived else [])) as allocations:
        assert list(allocations.runs()) == store.runs
        again = allocations.workflow(*KEY).spawn_run("run 01")
        assert again == store.runs[0].event.model_copy(update={"replayed": True})
    if is_archived:
        with pytest.raises(RunArchived):
            store.allocations.workflow(*KEY).spawn_run("run 01")


def stamps(directory: Path) -> dict[str, tuple[int, int]]:
    """What tells each whole file from one that was written later under its name."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in directory.iterdir()
        if not path.name.endswith(".part")
    }
