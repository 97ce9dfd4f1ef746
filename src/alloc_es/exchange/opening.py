"""Opening an export, of whatever format."""

from pathlib import Path

from alloc_es.errors import InvalidSetting
from alloc_es.evidence import Evidence
from alloc_es.exchange.cloudevents_file import CloudEventsFile
from alloc_es.exchange.parquet import MANIFEST, ParquetExport

_OTHERS = {
    b'{\n  "type": "alloc_es.archive"': "is an archive, not an export; give it with --archive",
    b'{\n "format": "alloc-es seal': "is a seal, not an export; give it to audit with --seal",
}
"""How other files of alloc-es begin, and what to say of them."""


def open_export(path: Path, *, check: bool = True) -> Evidence:
    """An export as evidence: the file of one in CloudEvents, the directory of one in Parquet.

    It is read once and compared with its own digests, unless `check` is False. Raises
    `ExportDamaged` for one that is not as it was written, `InvalidSetting` for a path where
    nothing can be read, or what is there is an archive or a seal, and where `pyarrow` would be
    needed and is missing.
    """
    if path.is_dir():
        _refuse_others(path, path / MANIFEST)
        return ParquetExport(path, check=check)
    _refuse_others(path, path)
    return CloudEventsFile(path, check=check)


def _refuse_others(path: Path, file: Path) -> None:
    """Raise `InvalidSetting` where a file tells that it is of something else."""
    try:
        # A pipe would be waited for.
        begin = b"" if not file.is_file() else _begin(file)
    except OSError:
        # It is told where it is opened as an export.
        return
    for other, problem in _OTHERS.items():
        if begin.startswith(other):
            raise InvalidSetting("path", f"{path} {problem}")


def _begin(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(max(map(len, _OTHERS)))
