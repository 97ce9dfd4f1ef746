"""Every command is explained: in its help, and in the reference."""

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from alloc_es import cli
from alloc_es.cli import EXIT_CODES

app = cli.app()
COMMANDS = {command.name or "": command.callback for command in app.registered_commands}
for group in app.registered_groups:
    assert group.typer_instance
    for member in group.typer_instance.registered_commands:
        COMMANDS[f"{group.name} {member.name}"] = member.callback
CODES = (*range(7), 70, 74, 130, 141, 143)
SOURCE = Path(cli.__file__).parent
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_commands_are_the_documented_ones() -> None:
    assert sorted(COMMANDS) == [
        "archive",
        "audit",
        "commit",
        "decide",
        "demo",
        "diff",
        "drill",
        "explain",
        "export",
        "history",
        "import",
        "init",
        "list",
        "peek",
        "projections list",
        "projections purge",
        "projections rebuild",
        "projections remove",
        "projections run",
        "projections status",
        "projections verify",
        "promote",
        "register",
        "reject",
        "replay",
        "rollback",
        "seal",
        "show",
        "spawn",
        "start",
        "triggers",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_explained(command: str) -> None:
    """Red when a command loses its docstring, or the reference does not know it."""
    callback = COMMANDS[command]
    assert callback
    assert callback.__doc__
    helped = CliRunner().invoke(app, [*command.split(), "--help"])
    assert helped.exit_code == 0
    assert "--store" in helped.output
    assert "--json" in helped.output
    reference = REFERENCE.read_text()
    assert f"## `alloc-es {command}`" in reference
    for line in helped.output.splitlines():
        option = line.strip().split()[0] if line.strip() else ""
        if option.startswith("--"):
            assert f"`{option}" in reference, option


def test_the_exit_codes_are_in_the_help_of_everything_and_in_the_reference() -> None:
    """Red when a command has no epilog, or a code is not in the reference's table."""
    for command in ("", "projections", *COMMANDS):
        helped = " ".join(CliRunner().invoke(app, [*command.split(), "--help"]).output.split())
        for code in CODES:
            assert re.search(rf"\b{code} [a-z]", helped.partition("Exit codes:")[2])
    told = set(re.findall(r"^\| (\d+) \|", REFERENCE.read_text(), re.M))
    assert told == {str(code) for code in CODES}
    assert {*EXIT_CODES.values()} < set(range(7))


def test_no_line_of_the_overview_is_cut() -> None:
    """Red when a docstring's first sentence is too long for the list of commands."""
    for command in ([], ["projections"]):
        helped = CliRunner().invoke(app, [*command, "--help"]).output
        assert "..." not in helped.replace("[ARGS]...", "")


def test_every_environment_variable_is_in_the_reference() -> None:
    """Red when a command reads a variable that the reference does not name."""
    source = "".join(path.read_text() for path in SOURCE.glob("*.py"))
    names = set(re.findall(r'"(ALLOC_ES_[A-Z_]+)"', source))
    assert len(names) == 4
    for name in names:
        assert f"`{name}`" in REFERENCE.read_text(), name


def test_the_version_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"alloc-es {version('alloc-es')}\n"

    def missing(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(cli, "version", missing)
    assert "run from its source" in CliRunner().invoke(app, ["--version"]).output
