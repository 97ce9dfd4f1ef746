"""`make detach`: make each change in a scratch copy and demand that its tests turn red."""

import argparse
import json
import sys
from collections import ChainMap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from tests.detach.changes import ROOT, Change, changes
from tests.detach.tree import Outcomes, Tree, outcomes_of
from tests.support.postgres import EXISTING_SERVER, server_for_tests


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a change: its problem, or None when every named test turned red."""

    change: str
    problem: str | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the changes and print a verdict on each; 0 when all turned their tests red."""
    options = _options(arguments)
    chosen = [change for change in changes() if options.only in change.name]
    if options.list:
        print("\n".join(f"{change.file}: {change.name}" for change in chosen))
        return 0
    with TemporaryDirectory(prefix="alloc-es-detach-") as scratch, server_for_tests() as server:
        environment = {EXISTING_SERVER: server.url}
        verdicts = judge(chosen, ROOT, Path(scratch), environment, options.jobs, quiet=options.json)
    findings = [verdict for verdict in verdicts if verdict.problem]
    if options.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=2))
    else:
        print(f"{len(verdicts)} changes, {len(findings)} findings")
    return 1 if findings or not verdicts else 0


def judge(
    chosen: Sequence[Change],
    source: Path,
    scratch: Path,
    environment: dict[str, str],
    jobs: int,
    *,
    quiet: bool,
) -> list[Verdict]:
    """Try changes in copies of `source`; first, their tests must be green without any."""
    copies = [Tree(source, scratch / str(number)) for number in range(jobs)]
    trees: SimpleQueue[Tree] = SimpleQueue()
    for copy in copies:
        trees.put(copy)
    done = count(1)
    named = _functions(chosen, copies[0])

    def unchanged(number: int) -> Outcomes:
        return copies[number].run(named[number::jobs], environment)

    def verdict(change: Change) -> Verdict:
        tree = trees.get()
        try:
            problem = change.problem(tree.root) or _problem(change, tree, environment, green)
        finally:
            trees.put(tree)
        if not quiet:
            _tell(change, problem, f"{next(done)}/{len(chosen)}")
        return Verdict(change.name, problem)

    with ThreadPoolExecutor(jobs) as pool:
        green = dict(ChainMap(*pool.map(unchanged, range(jobs))))
        return list(pool.map(verdict, chosen))


def _functions(chosen: Sequence[Change], tree: Tree) -> list[str]:
    """The tests of the changes that can be made, as pytest finds them for sure.

    It runs nothing at all when it can't find one of the names it is given.
    """
    sound = [change for change in chosen if change.problem(tree.root) is None]
    return sorted({test.partition("[")[0] for change in sound for test in change.tests})


def _problem(
    change: Change, tree: Tree, environment: dict[str, str], green: Outcomes
) -> str | None:
    for test in change.tests:
        before = outcomes_of(test, green)
        if before != {"passed"}:
            return f"{test} is not green without the change: {_words(before)}"
    with tree.changed(change):
        # Red for want of an import proves only that the module is there.
        if error := tree.import_error(change.file):
            return f"with the change {change.file} can't be imported: {error}"
        outcomes = tree.run(change.tests, environment)
    for test in change.tests:
        after = outcomes_of(test, outcomes)
        if "failed" not in after:
            return f"{test} does not turn red: {_words(after)}"
    return None


def _tell(change: Change, problem: str | None, place: str) -> None:
    lines = [f"[{place}] {'FINDING' if problem else 'red'}: {change.name}"]
    if problem:
        lines.append(f"    {problem}")
    print("\n".join(lines), flush=True)


def _words(outcomes: set[str]) -> str:
    return ", ".join(sorted(outcomes)) or "did not run"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.detach", description=__doc__)
    parser.add_argument("--only", default="", help="changes whose name contains this")
    parser.add_argument("--list", action="store_true", help="name the changes and do nothing")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default 2)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
