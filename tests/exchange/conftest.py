"""What the tests of exports share: a store with whatever a log can hold, and exports of it."""

import shutil
from pathlib import Path

import pytest

from alloc_es.evidence import open_evidence
from alloc_es.exchange import Format
from tests.exchange.given import FORMATS, exported, fill, opened, plant_oddities


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a store in SQLite, and its exports; to be read only."""
    directory = tmp_path_factory.mktemp("made")
    url = f"sqlite:///{directory / 'alloc.db'}"
    with opened(url) as allocations:
        fill(allocations)
        plant_oddities(allocations)
        with open_evidence(allocations) as evidence:
            for format in FORMATS:
                exported(evidence, directory, format)
    return directory


@pytest.fixture
def odd_url(made: Path) -> str:
    """The store."""
    return f"sqlite:///{made / 'alloc.db'}"


@pytest.fixture
def lines(made: Path, tmp_path: Path) -> Path:
    """An export in CloudEvents of one's own."""
    return Path(shutil.copy(made / "log.jsonl", tmp_path))


@pytest.fixture
def tables(made: Path, tmp_path: Path) -> Path:
    """An export in Parquet of one's own."""
    return Path(shutil.copytree(made / "log", tmp_path / "log"))


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> Format:
    """Each format."""
    found: Format = request.param
    return found


@pytest.fixture
def export_path(format: Format, request: pytest.FixtureRequest) -> Path:
    """An export of one's own in each format."""
    path: Path = request.getfixturevalue("lines" if format == "cloudevents" else "tables")
    return path
