"""What may name something, and that different names live in different streams."""

from collections import Counter
from enum import StrEnum

import pytest
from hypothesis import assume
from hypothesis import given as for_all
from hypothesis import strategies as st

from alloc_es.errors import InvalidIdentifier
from alloc_es.identity import (
    RunId,
    TenantId,
    WorkflowKey,
    parse_identifier,
    parse_reason,
    run_stream,
    tenant_prefix,
)

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
WOMAN_ENGINEER = "\U0001f469\U0001f3fd\u200d\U0001f4bb"
HEART_ON_FIRE = "\u2764\ufe0f\u200d\U0001f525"
PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
RAINBOW_FLAG = "\U0001f3f3\ufe0f\u200d\U0001f308"


class Workflow(StrEnum):
    TRIAGE = "triage"


class Name(str):
    """A string of somebody's own making, which answers for itself."""

    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "customer-17",
        "a/b",
        "100%",
        "%2F",
        "two words",
        "a  b",
        "'; DROP TABLE runs; --",
        "caf\u00e9",
        "\u6771\u4eac\u90fd",
        "\u05e9\u05dc\u05d5\u05dd",
        "\u0645\u0631\u062d\u0628\u0627",
        "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
        "\ufdfa",
        "\U0001f680",
        FAMILY,
        WOMAN_ENGINEER,
        HEART_ON_FIRE,
        RAINBOW_FLAG,
        PERSIAN,
        "a" * 200,
        "\U0001f680" * 200,
    ],
)
def test_printable_text_in_normal_form_c_may_name_something(text: str) -> None:
    """Red when a joiner is refused between the parts of an emoji, or bytes are counted."""
    assert parse_identifier("unit", text) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty"),
        ("a" * 201, "it has 201 characters, 200 are allowed"),
        ("\U0001f680" * 201, "it has 201 characters, 200 are allowed"),
        (" ", "it begins or ends with a blank"),
        (" a", "it begins or ends with a blank"),
        ("a ", "it begins or ends with a blank"),
        ("a\n", "it begins or ends with a blank"),
        ("\ta", "it begins or ends with a blank"),
        ("\u00a0a", "it begins or ends with a blank"),
        ("a\u3000", "it begins or ends with a blank"),
        ("a\u00a0b", "it contains U+00A0 NO-BREAK SPACE, which is not printable"),
        ("a\u2009b", "it contains U+2009 THIN SPACE, which is not printable"),
        ("a\u3000b", "it contains U+3000 IDEOGRAPHIC SPACE, which is not printable"),
        ("a\u2028b", "it contains U+2028 LINE SEPARATOR, which is not printable"),
        ("a\u2029b", "it contains U+2029 PARAGRAPH SEPARATOR, which is not printable"),
        ("a\nb", "it contains U+000A, which is not printable"),
        ("a\tb", "it contains U+0009, which is not printable"),
        ("a\0b", "it contains U+0000, which is not printable"),
        ("\0", "it contains U+0000, which is not printable"),
        ("a\x1b[2Jb", "it contains U+001B, which is not printable"),
        ("a\x7fb", "it contains U+007F, which is not printable"),
        ("a\x85b", "it contains U+0085, which is not printable"),
        ("a\ud800b", "it contains U+D800, which is not printable"),
        ("\udcff", "it contains U+DCFF, which is not printable"),
        ("a\ue000b", "it contains U+E000, which is not printable"),
        ("a\u0378b", "it contains U+0378, which is not printable"),
        ("a\uffffb", "it contains U+FFFF, which is not printable"),
        ("a\u00adb", "it contains U+00AD SOFT HYPHEN, which is not printable"),
        ("a\u200bb", "it contains U+200B ZERO WIDTH SPACE, which is not printable"),
        ("a\u2060b", "it contains U+2060 WORD JOINER, which is not printable"),
        ("\ufeffa", "it contains U+FEFF ZERO WIDTH NO-BREAK SPACE, which is not printable"),
        ("a\u200db", "it contains U+200D ZERO WIDTH JOINER, which is not printable"),
        ("a\u200cb", "it contains U+200C ZERO WIDTH NON-JOINER, which is not printable"),
        ("\u200d\U0001f469", "it contains U+200D ZERO WIDTH JOINER, which is not printable"),
        ("\U0001f469\u200d", "it contains U+200D ZERO WIDTH JOINER, which is not printable"),
        ("\U0001f469\u200db", "it contains U+200D ZERO WIDTH JOINER, which is not printable"),
        ("a\u200d\U0001f469", "it contains U+200D ZERO WIDTH JOINER, which is not printable"),
        ("a\u200eb", "it contains U+200E LEFT-TO-RIGHT MARK, which is not printable"),
        ("a\u202eb", "it contains U+202E RIGHT-TO-LEFT OVERRIDE, which is not printable"),
        ("\u2066a\u2069", "it contains U+2066 LEFT-TO-RIGHT ISOLATE, which is not printable"),
        ("\u3164", "it contains U+3164 HANGUL FILLER, which is not printable"),
        ("\u2800", "it contains U+2800 BRAILLE PATTERN BLANK, which is not printable"),
        ("v\u034f1", "it contains U+034F COMBINING GRAPHEME JOINER, which is not printable"),
        ("v1\ufe0f", "it contains U+FE0F VARIATION SELECTOR-16, which is not printable"),
        ("\u2764\ufe0f\ufe0f", "it contains U+FE0F VARIATION SELECTOR-16, which is not printable"),
        ("\u2764\ufe00", "it contains U+FE00 VARIATION SELECTOR-1, which is not printable"),
        (
            "\U0001f469\u200d\u200d\U0001f467",
            "it contains U+200D ZERO WIDTH JOINER, which is not printable",
        ),
        (
            "cafe\u0301",
            "it is not in Unicode normal form C; in that form it is 'caf\u00e9'",
        ),
        ("\u212b", "it is not in Unicode normal form C; in that form it is '\u00c5'"),
    ],
)
def test_other_text_is_refused_with_the_reason(text: str, problem: str) -> None:
    """Red when any of the rules of `_problem` goes."""
    with pytest.raises(InvalidIdentifier) as raised:
        parse_identifier("run id", text)
    assert (raised.value.kind, raised.value.value) == ("run id", text)
    assert raised.value.problem == problem
    assert str(raised.value).endswith(f"can't be a run id: {problem}")


@pytest.mark.parametrize(
    ("value", "name"),
    [(None, "a NoneType"), (7, "an int"), (True, "a bool"), (b"a", "a bytes"), (["a"], "a list")],
)
def test_what_is_no_string_names_nothing(value: object, name: str) -> None:
    """Red when `parse_identifier` turns what it is given into a string."""
    with pytest.raises(InvalidIdentifier) as raised:
        parse_identifier("tenant id", value)
    assert (raised.value.kind, raised.value.value) == ("tenant id", ascii(value))
    assert raised.value.problem == f"it is {name}, not a string"


@pytest.mark.parametrize(("value", "text"), [(Workflow.TRIAGE, "triage"), (Name("v1"), "v1")])
def test_a_string_of_another_class_becomes_a_plain_string(value: str, text: str) -> None:
    """Red when `parse_identifier` hands back what it was given, or calls its `__str__`."""
    parsed = parse_identifier("workflow id", value)
    assert parsed == text
    assert type(parsed) is str
    assert type(parse_reason(value)) is str


def test_a_name_that_was_refused_is_shown_in_ascii_and_cut_short() -> None:
    with pytest.raises(InvalidIdentifier) as raised:
        parse_identifier("unit", "\u202e" + "x" * 300)
    message = str(raised.value)
    assert message.isascii()
    assert "\\u202e" in message
    assert len(message) < 160


@pytest.mark.parametrize("reason", ["", "worse\n\ton evals", " blank ", "cafe\u0301", "x" * 2_000])
def test_a_reason_is_text_of_several_lines(reason: str) -> None:
    assert parse_reason(reason) == reason


@pytest.mark.parametrize(
    ("reason", "problem"),
    [
        ("x" * 2_001, "it has 2001 characters, 2000 are allowed"),
        ("a\0b", "it contains U+0000"),
        ("\x1b[2J", "it contains U+001B"),
        ("\ud800", "it contains U+D800"),
        (None, "it is a NoneType, not a string"),
    ],
)
def test_a_reason_that_not_every_store_takes_is_refused(reason: object, problem: str) -> None:
    """Red when `parse_reason` lets control characters or surrogates through."""
    with pytest.raises(InvalidIdentifier) as raised:
        parse_reason(reason)
    assert (raised.value.kind, raised.value.problem) == ("reason", problem)


def test_both_parts_of_a_key_are_parsed_and_named() -> None:
    assert WorkflowKey.parse("acme", "triage") == WorkflowKey.parse("acme", Workflow.TRIAGE)
    for ids, kind in (((" a", "b"), "tenant id"), (("a", ""), "workflow id")):
        with pytest.raises(InvalidIdentifier) as raised:
            WorkflowKey.parse(*ids)
        assert raised.value.kind == kind


def test_a_stream_is_named_so_that_a_person_can_read_it() -> None:
    assert WorkflowKey.parse("acme", "triage").stream == "allocation/acme/triage"
    assert run_stream(TenantId("acme"), RunId("run-1")) == "run/acme/run-1"
    assert str(WorkflowKey.parse("acme", "triage")) == "acme/triage"


def test_a_slash_in_a_name_does_not_move_it_to_another_stream() -> None:
    """Red when `_escape` leaves the slash as it is."""
    one, other = WorkflowKey.parse("a/b", "c"), WorkflowKey.parse("a", "b/c")
    assert one.stream == "allocation/a%2Fb/c"
    assert other.stream == "allocation/a/b%2Fc"
    assert WorkflowKey.parse("a%2Fb", "c").stream == "allocation/a%252Fb/c"


names = st.text("ab/%25F", min_size=1, max_size=5)


def test_different_keys_have_different_streams_and_equal_keys_the_same() -> None:
    """Red when `_escape` forgets the slash or the percent sign."""
    seen: Counter[str] = Counter()

    @for_all(names, names)
    def holds(tenant: str, workflow: str) -> None:
        keys = alike(tenant, workflow)
        assert len({key.stream for key in keys}) == len(keys)
        runs = {run_stream(key.tenant_id, RunId(key.workflow_id)) for key in keys}
        assert len(runs) == len(keys)
        assert not runs & {key.stream for key in keys}
        assert WorkflowKey.parse(tenant, workflow).stream in {key.stream for key in keys}
        seen["slash"] += "/" in tenant + workflow
        seen["several"] += len(keys) > 2

    holds()
    assert min(seen["slash"], seen["several"]) > 20


def alike(tenant: str, workflow: str) -> set[WorkflowKey]:
    """The key, and all whose parts, joined by a slash and once (un)escaped, look the same."""
    whole = f"{tenant}/{workflow}"
    texts = {whole, whole.replace("%2F", "/"), whole.replace("%25", "%")}
    pairs = {
        (text[:cut], text[cut + 1 :])
        for text in texts
        for cut, character in enumerate(text)
        if character == "/" and 0 < cut < len(text) - 1
    }
    escaped = {(one.replace("/", "%2F"), other.replace("/", "%2F")) for one, other in pairs}
    return {WorkflowKey.parse(*pair) for pair in pairs | escaped}


def test_the_slash_may_stand_anywhere_in_the_same_text() -> None:
    """Red when `_escape` forgets the slash: then all parts of one text share a stream."""
    text = "a/b/c%2Fd/e"
    cuts = [index for index, character in enumerate(text) if character == "/"]
    keys = [WorkflowKey.parse(text[:cut], text[cut + 1 :]) for cut in cuts]
    assert len({key.stream for key in keys}) == len(keys) == 3


def test_the_streams_of_a_tenant_begin_with_its_prefix_and_no_other_tenant_s_do() -> None:
    """Red when `tenant_prefix` does not end with a slash: then "a" is a prefix of "ab"."""
    cases: Counter[str] = Counter()

    @for_all(names, names, names)
    def holds(tenant: str, other: str, workflow: str) -> None:
        assume(tenant != other)
        prefix = tenant_prefix(TenantId(tenant))
        assert WorkflowKey.parse(tenant, workflow).stream.startswith(prefix)
        for neighbour in (other, tenant + other, f"{tenant}/{other}", f"{tenant}%2F"):
            assert not WorkflowKey.parse(neighbour, workflow).stream.startswith(prefix)
        cases["checked"] += 1

    holds()
    assert cases["checked"] > 50


def test_what_is_let_through_can_be_stored_by_every_backend() -> None:
    """Red when `_UNPRINTABLE` loses a category."""
    outcomes: Counter[str] = Counter()

    part = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=4)

    @for_all(part, st.sampled_from(["", "a", " ", "\0", "\ud800", "\udfff", "\u0301"]), part)
    def holds(before: str, middle: str, after: str) -> None:
        text = before + middle + after
        outcomes["surrogate"] += middle in ("\ud800", "\udfff")
        try:
            parsed = parse_identifier("unit", text)
        except InvalidIdentifier:
            outcomes["refused"] += 1
            return
        assert parsed == text == text.strip() != ""
        assert parsed.encode().decode() == parsed
        assert not any(ord(character) < 32 for character in parsed)
        outcomes["taken"] += 1

    holds()
    assert min(outcomes["refused"], outcomes["taken"], outcomes["surrogate"]) > 10
