"""How many physical cores this process may use."""

import os
from collections.abc import Iterable
from math import ceil
from pathlib import Path


def physical_cores() -> int:
    """The physical cores that this process may use, at least 1.

    Its CPU affinity and the limit of its control group are heeded. Where the system does not
    tell cores from their threads, logical ones count.
    """
    return cores_told_by(Path("/"), usable_processors())


def usable_processors() -> set[int]:
    """The numbers of the logical processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def cores_told_by(root: Path, usable: Iterable[int]) -> int:
    """The physical cores among usable processors, as a Linux file system under `root` tells."""
    cores = {_core(root, number) for number in usable}
    return max(1, min([len(cores), *_limits(root)]))


def _core(root: Path, number: int) -> str:
    """What names the core of a processor: all the processors that it shows itself as."""
    topology = root / "sys/devices/system/cpu" / f"cpu{number}" / "topology"
    return _read(topology / "thread_siblings_list") or str(number)


def _limits(root: Path) -> list[int]:
    """How many processors' worth of time each control group around this process is given."""
    groups = root / "sys/fs/cgroup"
    own = _own_group(root)
    places = [groups / own, *(groups / parent for parent in Path(own).parents)]
    newer = [(_read(place / "cpu.max") or "max").split() for place in places]
    quota = _read(groups / "cpu/cpu.cfs_quota_us") or "-1"
    period = _read(groups / "cpu/cpu.cfs_period_us") or "100000"
    return [
        ceil(int(given) / int(of))
        for given, of in ((pair[0], pair[-1]) for pair in [*newer, [quota, period]])
        if given.isdigit()
    ]


def _own_group(root: Path) -> str:
    """The path of this process's group of the second version, without its leading slash."""
    lines = (_read(root / "proc/self/cgroup") or "").splitlines()
    own = [line.removeprefix("0::/") for line in lines if line.startswith("0::/")]
    # Above the top of what is mounted here nothing can be read.
    return own[0] if own and ".." not in own[0] else ""


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
