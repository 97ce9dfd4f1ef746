"""Keys and ids, parsed at the edge, and the names of the streams they live in."""

import unicodedata
from hashlib import sha256
from typing import NamedTuple, NewType

from alloc_es.errors import InvalidIdentifier
from alloc_es.wording import with_article

TenantId = NewType("TenantId", str)
WorkflowId = NewType("WorkflowId", str)
Version = NewType("Version", str)
RunId = NewType("RunId", str)
Unit = NewType("Unit", str)
CommandId = NewType("CommandId", str)
Actor = NewType("Actor", str)

MAX_IDENTIFIER_LENGTH = 200
MAX_REASON_LENGTH = 2_000

# Emoji and several scripts are written with these, so they are let through among non-ASCII
# characters; elsewhere they would make two ids look alike.
_JOINERS = frozenset("\u200c\u200d")
_VARIATIONS = frozenset("\ufe0e\ufe0f")
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Letters and marks by their category that print nothing: fillers, the blank of Braille, the
# grapheme joiner, and the selectors of variants.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(point)
    for first, end in ((0x180B, 0x1810), (0xFE00, 0xFE0E), (0xE0100, 0xE01F0))
    for point in range(first, end)
}


class WorkflowKey(NamedTuple):
    """What an allocation belongs to: one workflow of one tenant.

    Make one with `WorkflowKey.parse`, which refuses what `parse_identifier` refuses.
    """

    tenant_id: TenantId
    workflow_id: WorkflowId

    @classmethod
    def parse(cls, tenant_id: object, workflow_id: object) -> "WorkflowKey":
        """Read both ids as given by a caller; raises `InvalidIdentifier`."""
        return cls(
            TenantId(parse_identifier("tenant id", tenant_id)),
            WorkflowId(parse_identifier("workflow id", workflow_id)),
        )

    @property
    def stream(self) -> str:
        """The name of the stream of this key's decisions; different keys, different names."""
        return f"{tenant_prefix(self.tenant_id)}{_escape(self.workflow_id)}"

    @property
    def digest(self) -> str:
        """The SHA-256 of the stream's name, which its first decision is chained to."""
        return sha256(self.stream.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.tenant_id}/{self.workflow_id}"


def key_of_stream(stream: str) -> WorkflowKey | None:
    """The key whose decisions lie in a stream of this name, None where there is none."""
    parts = stream.split("/")
    if len(parts) != 3 or parts[0] != "allocation":
        return None
    tenant_id, workflow_id = map(_unescape, parts[1:])
    return WorkflowKey(TenantId(tenant_id), WorkflowId(workflow_id))


def tenant_prefix(tenant_id: TenantId) -> str:
    """What the names of a tenant's decision streams begin with, and no other tenant's."""
    return f"allocation/{_escape(tenant_id)}/"


def run_stream(tenant_id: TenantId, run_id: RunId) -> str:
    """The name of the stream that holds a run's one event; a run id is unique per tenant."""
    return f"run/{_escape(tenant_id)}/{_escape(run_id)}"


def run_of_stream(stream: str) -> tuple[TenantId, RunId] | None:
    """The tenant and id of the run that lies in a stream of this name, None where there is none."""
    parts = stream.split("/")
    if len(parts) != 3 or parts[0] != "run":
        return None
    tenant_id, run_id = map(_unescape, parts[1:])
    return TenantId(tenant_id), RunId(run_id)


def parse_identifier(kind: str, value: object) -> str:
    """Return `value` as a plain string if it may name something.

    Allowed: 1 to 200 printable characters in Unicode normal form C, where the only space
    is U+0020 and neither stands first nor last. `kind` ("tenant id", "run id", …) goes
    into the message. Raises `InvalidIdentifier` with the reason. The rule is the same for
    every store.
    """
    # What nearly every id is made of. The rules below let it through too, in ten times the time.
    if (
        type(value) is str
        and value.isascii()
        and value.isprintable()
        and 0 < len(value) <= MAX_IDENTIFIER_LENGTH
        and value == value.strip()
    ):
        return value
    if not isinstance(value, str):
        raise InvalidIdentifier(
            kind, value, f"it is {with_article(type(value).__name__)}, not a string"
        )
    text = str.__str__(value)
    problem = _problem(text)
    if problem:
        raise InvalidIdentifier(kind, text, problem)
    return text


def parse_reason(value: object) -> str:
    """Return `value` as a reason: up to 2,000 characters of text, lines and tabs allowed.

    Raises `InvalidIdentifier` for anything else, so that what one store takes all take.
    """
    if not isinstance(value, str):
        raise InvalidIdentifier(
            "reason", value, f"it is {with_article(type(value).__name__)}, not a string"
        )
    text = str.__str__(value)
    if len(text) > MAX_REASON_LENGTH:
        raise InvalidIdentifier(
            "reason", text, f"it has {len(text)} characters, {MAX_REASON_LENGTH} are allowed"
        )
    for character in text:
        if character not in "\r\n\t" and unicodedata.category(character) in {"Cc", "Cs"}:
            raise InvalidIdentifier("reason", text, f"it contains {_name(character)}")
    return text


def _no_string(value: object) -> str:
    return f"it is {with_article(type(value).__name__)}, not a string"


def _problem(text: str) -> str | None:
    if not text:
        return "it is empty"
    if len(text) > MAX_IDENTIFIER_LENGTH:
        return f"it has {len(text)} characters, {MAX_IDENTIFIER_LENGTH} are allowed"
    if text[0].isspace() or text[-1].isspace():
        return "it begins or ends with a blank"
    for index, character in enumerate(text):
        if not _is_printable(text, index):
            return f"it contains {_name(character)}, which is not printable"
    normal = unicodedata.normalize("NFC", text)
    if normal != text:
        return f"it is not in Unicode normal form C; in that form it is {normal!r}"
    return None


def _is_printable(text: str, index: int) -> bool:
    character = text[index]
    if character == " ":
        return True
    if character in _JOINERS:
        after = text[index + 1 : index + 2]
        return _joins(text, index) and not after.isascii() and after not in _JOINERS | _VARIATIONS
    if character in _VARIATIONS:
        return _joins(text, index) and text[index - 1] not in _VARIATIONS
    return character not in _BLANK and unicodedata.category(character) not in _UNPRINTABLE


def _joins(text: str, index: int) -> bool:
    """Whether a joiner or a variation stands behind a character that it can belong to."""
    return index > 0 and not text[index - 1].isascii() and text[index - 1] not in _JOINERS


def _name(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()


def _escape(part: str) -> str:
    if "/" not in part and "%" not in part:
        return part
    return part.replace("%", "%25").replace("/", "%2F")


def _unescape(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")
