"""Links between the documents lead somewhere, and every document can be reached."""

from pathlib import Path

import pytest

from tests.docs.documents import ROOT, anchors, documents, links, name


def internal(path: Path) -> list[str]:
    return [link for link in links(path) if not link.startswith(("http://", "https://"))]


@pytest.mark.parametrize("path", documents(), ids=name)
def test_every_link_leads_to_a_file_and_a_heading(path: Path) -> None:
    """Red when a document is renamed, or a heading that another one links to."""
    for link in internal(path):
        target, _, fragment = link.partition("#")
        found = (path.parent / target).resolve() if target else path
        assert found.exists(), f"{name(path)} links to {link}, which is not there"
        if fragment:
            assert fragment in anchors(found), f"{name(path)} links to {link}: no such heading"


def test_the_index_links_to_every_document() -> None:
    """Red when a document is added and `docs/README.md` does not name it."""
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in internal(index)}
    missing = [name(path) for path in documents() if path.is_relative_to(index.parent)]
    assert [path for path in missing if (ROOT / path) not in linked | {index}] == []
