"""Exports: the logs of a store as files, and a store of them again."""

from alloc_es.exchange.errors import ExportDamaged, ExportExists, ImportRefused, StoreNotEmpty
from alloc_es.exchange.exporting import Exported, Format, export
from alloc_es.exchange.importing import Imported, import_
from alloc_es.exchange.opening import open_export

__all__ = [
    "ExportDamaged",
    "ExportExists",
    "Exported",
    "Format",
    "ImportRefused",
    "Imported",
    "StoreNotEmpty",
    "export",
    "import_",
    "open_export",
]
