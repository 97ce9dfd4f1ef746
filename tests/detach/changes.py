"""The changes that must turn tests red, read from the TOML files beside this one."""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Change:
    """Replace `old`, which stands once in `file`, by `new`; then `tests` must be red."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def problem(self, root: Path) -> str | None:
        """Why the change can't be made in a tree, or None."""
        path = root / self.file
        if not path.is_file():
            return f"there is no {self.file}"
        count = path.read_text().count(self.old)
        if count != 1:
            return f"its old text stands {count} times in {self.file}, not once"
        if not self.tests:
            return "it names no test"
        missing = [test for test in self.tests if not _exists(root, test)]
        return f"there is no test {missing[0]}" if missing else None


def changes(directory: Path = Path(__file__).parent) -> list[Change]:
    """All changes of all files of a directory, in order."""
    return list(_read(directory))


def _read(directory: Path) -> Iterator[Change]:
    for path in sorted(directory.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["change"]:
            yield Change(**{**entry, "tests": tuple(entry["tests"])})


def _exists(root: Path, test: str) -> bool:
    """Whether the file of a node id defines the test's function."""
    file, *names = test.split("::")
    path = root / file
    if not path.is_file() or not names:
        return False
    scope: ast.AST = ast.parse(path.read_text())
    for name in names:
        wanted = name.partition("[")[0]
        found = [node for node in ast.iter_child_nodes(scope) if _is_named(node, wanted)]
        if not found:
            return False
        scope = found[0]
    return True


def _is_named(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
