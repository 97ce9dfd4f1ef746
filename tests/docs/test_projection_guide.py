"""The package that a guide shows is found as an installed one is."""

import tomllib
from pathlib import Path

import pytest

from alloc_es.projection import installed
from tests.docs.documents import ROOT, blocks

GUIDE = ROOT / "docs" / "how-to" / "write-a-projection.md"


def test_the_package_of_the_guide_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if the entry point that the guide shows leads to none of the projections it shows."""
    module = next(block.text for block in blocks(GUIDE) if block.language == "python")
    package = next(block.text for block in blocks(GUIDE) if block.language == "toml")
    project = tomllib.loads(package)["project"]
    (tmp_path / "acme_projections.py").write_text(module)
    information = tmp_path / "acme_projections-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    (information / "entry_points.txt").write_text("\n".join(points))
    before = {projection.name for projection in installed()[0]}
    monkeypatch.syspath_prepend(tmp_path)
    assert {projection.name for projection in installed()[0]} - before == {"decision_counts"}
