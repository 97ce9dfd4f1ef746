"""What each process of a crowd does; run by `tests.support.children.run_together`."""

from typing import Any

from alloc_es import ChallengerAlreadyLive, WorkflowAlreadyStarted, connect


def register(barrier: Any, url: str, version: str) -> tuple[str, str]:
    """Register a challenger when all are ready: ("won", itself) or ("refused", incumbent)."""
    with connect(url, actor=version, migrate=False) as allocations:
        workflow = allocations.workflow("acme", "triage")
        workflow.allocation()
        barrier.wait()
        try:
            workflow.register_challenger(version)
        except ChallengerAlreadyLive as error:
            return "refused", error.incumbent
        return "won", version


def start_on_empty(barrier: Any, urls: list[str], name: str) -> list[str]:
    """Open one empty store after the other, each together with all others, and use it."""
    outcomes = []
    for url in urls:
        barrier.wait()
        with connect(url, actor=name) as allocations:
            workflow = allocations.workflow("acme", "triage")
            try:
                workflow.start("v1")
            except WorkflowAlreadyStarted:
                outcomes.append("was started")
            else:
                outcomes.append("started")
            workflow.spawn_run(f"run-{name}")
    return outcomes


def commit(barrier: Any, url: str, name: str, shares: list[int]) -> list[tuple[int, int]]:
    """Commit the shares one after the other; the generation and the attempts of each."""
    # However long a machine with other work to do takes over it.
    with connect(url, actor=name, timeout=100, migrate=False) as allocations:
        workflow = allocations.workflow("acme", "triage")
        barrier.wait()
        commits = [workflow.commit_allocation({"v2": share}) for share in shares]
    return [(each.generation, each.attempts) for each in commits]
