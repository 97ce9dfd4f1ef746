"""The project's documents: their fenced blocks, links and headings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```[ ]*$", re.M | re.S
)
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(?P<title>.+?) *$", re.M)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `line` is that of its first line of text."""

    path: Path
    line: int
    language: str
    dialect: str
    text: str

    @property
    def where(self) -> str:
        """The block's place, as an editor reads it."""
        return f"{self.path}:{self.line}"


def documents() -> list[Path]:
    """Every Markdown document that the project ships, README first."""
    top = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "projections" / "README.md"]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def name(path: Path) -> str:
    """A document's path inside the repository."""
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a document, in order."""
    return list(_blocks(path))


def _blocks(path: Path) -> Iterator[Block]:
    whole = path.read_text()
    for match in _FENCE.finditer(whole):
        language, _, dialect = match["info"].strip().partition(" ")
        indent = match["indent"]
        lines = (line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))
        line = whole.count("\n", 0, match.start("text")) + 1
        yield Block(path, line, language, dialect, "".join(lines))


def prose(path: Path) -> str:
    """A document without its fenced blocks."""
    return _FENCE.sub("", path.read_text())


def links(path: Path) -> list[str]:
    """The targets of a document's links."""
    return [match["target"] for match in _LINK.finditer(prose(path))]


def anchors(path: Path) -> set[str]:
    """The fragments by which a document's headings can be linked to."""
    return {_slug(match["title"]) for match in _HEADING.finditer(prose(path))}


def _slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
