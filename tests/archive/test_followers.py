"""No run leaves the log before every read model that follows the runs has passed it."""

import pytest

from alloc_es import NotYetFollowed
from alloc_es.archiving import plan_archive
from alloc_es.removing import Move
from tests.archive.filling import KEY, Filled, caught_up
from tests.projections.reading import execute


def place_at(store: Filled, run: int, state: str = "live") -> None:
    """Let the read model of the runs be one that is at the nth of them."""
    position = store.runs[run - 1].position if run else 0
    statement = "UPDATE projection_builds SET runs_position = ?, state = ? WHERE name = ?"
    execute(store.allocations, statement, position, state, "run_ledger")


@pytest.mark.parametrize("state", ["live", "building"])
def test_a_read_model_that_has_not_passed_is_named(sqlite_store: Filled, state: str) -> None:
    """Red when nobody looks at the read models, or only at the live ones."""
    caught_up(sqlite_store.allocations)
    place_at(sqlite_store, 4, state)
    for attempt in (
        sqlite_store.archive,
        lambda run: plan_archive(sqlite_store.allocations, up_to=run),
    ):
        with pytest.raises(NotYetFollowed) as refused:
            attempt(5)
        model = (refused.value.name, refused.value.state, refused.value.position)
        assert model == ("run_ledger", state, sqlite_store.runs[3].position)
        assert refused.value.up_to == sqlite_store.runs[4].position
    assert list(sqlite_store.allocations.runs()) == sqlite_store.runs
    assert not (sqlite_store.home / "first").exists()
    assert sqlite_store.archive(4).runs == 4


def test_a_read_model_of_the_decisions_keeps_no_run(sqlite_store: Filled) -> None:
    """Red when a model that follows no runs is taken for one that is at their beginning."""
    sqlite_store.allocations.projections().catch_up("current_split")
    assert sqlite_store.archive(5).runs == 5


def test_a_build_that_was_replaced_keeps_no_run(sqlite_store: Filled) -> None:
    """Red when old builds count."""
    caught_up(sqlite_store.allocations)
    place_at(sqlite_store, 0, "old")
    assert sqlite_store.archive(5).runs == 5


def test_a_build_that_is_begun_while_the_files_are_written_is_waited_for(
    store: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the read models are looked at before the files are written, and not again."""
    genuine = Move.keep_ids

    def keep_ids(move: Move) -> None:
        caught_up(store.allocations)
        place_at(store, 2)
        genuine(move)

    monkeypatch.setattr(Move, "keep_ids", keep_ids)
    with pytest.raises(NotYetFollowed):
        store.archive(5)
    assert list(store.allocations.runs()) == store.runs
    assert store.allocations.workflow(*KEY).spawn_run("run 01").replayed
    monkeypatch.undo()
    place_at(store, 5)
    assert store.archive(5).runs == 5
