"""Opening an export, of whatever format."""

from pathlib import Path

from alloc_es.evidence import Evidence
from alloc_es.exchange.cloudevents_file import CloudEventsFile
from alloc_es.exchange.parquet import ParquetExport


def open_export(path: Path, *, check: bool = True) -> Evidence:
    """An export as evidence: the file of one in CloudEvents, the directory of one in Parquet.

    It is read once and compared with its own digests, unless `check` is False. Raises
    `ExportDamaged` for one that is not as it was written, `InvalidSetting` for a path where
    nothing can be read, and where `pyarrow` would be needed and is missing.
    """
    if path.is_dir():
        return ParquetExport(path, check=check)
    return CloudEventsFile(path, check=check)
