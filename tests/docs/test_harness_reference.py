"""The reference of the harness names everything that there is, as it is."""

import inspect
from typing import Any

import pytest

from alloc_es import harness
from alloc_es.harness import errors
from tests.docs.test_reference import default_of, facts, read, section, words

PAGE = "harness.md"
CALLS = [
    ("Launcher", harness.Launcher),
    ("physical_cores", harness.physical_cores),
    *(
        (f"{kind.__name__}.{name}", member)
        for kind, names in (
            (harness.Launcher, ("start", "participant", "call", "restart", "stop", "close")),
            (
                harness.Participant,
                (
                    *("send", "settle", "call", "health", "stop", "kill", "pause", "resume"),
                    *("set_trap", "step_clock", "fill_disk"),
                ),
            ),
        )
        for name, member in ((name, getattr(kind, name)) for name in names)
    ),
]
INTERNAL = {"await_up", "ask_to_stop", "await_end"}
WITH_FIELDS = (
    *(harness.Decide, harness.Pass, harness.Spawn, harness.Read),
    *(harness.Done, harness.Refused, harness.Resolved, harness.Unknown),
    *(harness.Health, harness.Identity),
)
ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, errors.HarnessError)
    and kind is not errors.HarnessError
]


@pytest.mark.parametrize("name", harness.__all__)
def test_the_page_names_every_public_name(name: str) -> None:
    """Red when a name is exported and the page does not mention it."""
    assert f"`{name}`" in read(PAGE) or section(PAGE, name)


@pytest.mark.parametrize(("name", "function"), CALLS, ids=[name for name, _ in CALLS])
def test_the_page_shows_every_call_with_its_arguments_and_defaults(
    name: str, function: Any
) -> None:
    """Red when an argument is added, renamed, or gets another default."""
    shown = " ".join(section(PAGE, name).split("```")[1].split())
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.default is parameter.empty:
            assert parameter.name in words(shown)
        else:
            assert f"{parameter.name}={default_of(parameter)}" in shown


def test_the_page_describes_every_member() -> None:
    """Red when a launcher or a participant gets a member that the page does not tell."""
    for name in vars(harness.Launcher):
        assert name.startswith("_") or section(PAGE, f"Launcher.{name}")
    methods = {name for name in vars(harness.Participant) if not name.startswith("_")}
    properties = {each for each in methods if f"`{each}`" in section(PAGE, "Participant")}
    for name in methods - properties - INTERNAL:
        assert section(PAGE, f"Participant.{name}")


@pytest.mark.parametrize("kind", WITH_FIELDS, ids=lambda kind: kind.__name__)
def test_the_page_describes_every_field(kind: Any) -> None:
    """Red when a request or an outcome gets a field that its table does not have."""
    assert set(kind.__dataclass_fields__) <= words(section(PAGE, kind.__name__))


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_the_page_describes_every_error_with_its_facts(kind: type[errors.HarnessError]) -> None:
    """Red when an error is added, or gets a fact that the page does not name."""
    text = section(PAGE, kind.__name__)
    assert {fact for fact in facts(kind) if f"`{fact}`" not in text} == set()
    assert kind.__name__ in harness.__all__
