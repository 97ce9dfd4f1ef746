"""Every command is explained: in its help, and in the reference."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from alloc_es.cli import EXIT_CODES, app

COMMANDS = sorted(command.name or "" for command in app.registered_commands)
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_commands_are_the_documented_ones() -> None:
    assert COMMANDS == [
        "commit",
        "demo",
        "history",
        "init",
        "list",
        "peek",
        "promote",
        "register",
        "reject",
        "rollback",
        "show",
        "spawn",
        "start",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_explained(command: str) -> None:
    """Red when a command loses its docstring, or the reference does not know it."""
    helped = CliRunner().invoke(app, [command, "--help"])
    assert helped.exit_code == 0
    assert "--store" in helped.output
    assert "--json" in helped.output
    reference = REFERENCE.read_text()
    assert f"## `alloc-es {command}`" in reference
    for line in helped.output.splitlines():
        option = line.strip().split()[0] if line.strip() else ""
        if option.startswith("--"):
            assert f"`{option}" in reference, option


def test_the_exit_codes_are_in_the_help() -> None:
    helped = CliRunner().invoke(app, ["--help"]).output
    for _, code in EXIT_CODES:
        assert f"{code} " in helped
