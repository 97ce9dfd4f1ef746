"""Runs the Python of a document and compares what it gives with the outputs it shows."""

import ast
import io
import re
import tokenize
from typing import Any, TypeGuard

from tests.docs.documents import Block

_ARROW = "# → "
_CHECK = "__shown__"


class Shown:
    """The outputs that a block shows as `# → …`, and which of them were compared."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._expected = _shown(block.text)
        self._compared: set[int] = set()

    @property
    def lines(self) -> set[int]:
        """The block's lines that show an output."""
        return set(self._expected)

    def compare(self, line: int, value: object) -> object:
        """Fail unless a value is what its line shows; `…` stands for anything."""
        self._compared.add(line)
        expected = self._expected[line]
        found = (repr(value), str(value))
        assert any(matches(expected, text) for text in found), (
            f"{self._block.path}:{self._block.line + line - 1} shows {expected!r}, "
            f"it gives {found[0]}"
        )
        return value

    def assert_all_compared(self) -> None:
        """Fail when the block shows an output that nothing produced."""
        missed = sorted(self._block.line + line - 1 for line in self.lines - self._compared)
        assert not missed, f"{self._block.path}: nothing gives what lines {missed} show"


class _Wrap(ast.NodeTransformer):
    """Wraps each expression whose last line shows an output into a comparison."""

    def __init__(self, lines: set[int]) -> None:
        self._lines = lines

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        value = node.value
        if _is_print(value):
            value = value.args[0]
        node.value = self._wrapped(value, node.end_lineno)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.value = self._wrapped(node.value, node.end_lineno)
        return node

    def _wrapped(self, value: ast.expr, line: int | None) -> ast.expr:
        if line not in self._lines:
            return value
        name = ast.Name(_CHECK, ast.Load())
        call = ast.Call(name, [ast.Constant(line), value], [])
        return ast.fix_missing_locations(ast.copy_location(call, value))


def run_python(block: Block, text: str, namespace: dict[str, Any]) -> None:
    """Run a block's `text` in a namespace; every output it shows must come out."""
    shown = Shown(block)
    # Blank lines in front give a traceback the document's own line numbers.
    tree = _Wrap(shown.lines).visit(ast.parse(text))
    ast.increment_lineno(tree, block.line - 1)
    namespace[_CHECK] = shown.compare
    exec(compile(tree, str(block.path), "exec"), namespace)
    shown.assert_all_compared()


def matches(expected: str, found: str) -> bool:
    """Whether a text is what was expected, where `…` stands for any text."""
    pattern = ".*".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, found, re.S) is not None


def _shown(text: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {
        token.start[0]: token.string.removeprefix(_ARROW).strip()
        for token in tokens
        if token.type == tokenize.COMMENT and token.string.startswith(_ARROW)
    }


def _is_print(value: ast.expr) -> TypeGuard[ast.Call]:
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id == "print"
        and len(value.args) == 1
    )
