"""The library that reads and writes Parquet, which is an extra and comes with nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

from alloc_es.errors import InvalidSetting


def arrow() -> Any:
    """The module `pyarrow`, with `pyarrow.parquet`. Raises `InvalidSetting` where it is missing."""
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as error:
        problem = f"it needs an extra: pip install 'alloc-es[parquet]' ({error})"
        raise InvalidSetting("parquet", problem) from error
    return pa


def schema_of(columns: Mapping[str, tuple[str, str]]) -> Any:
    """The schema of columns that are given by name with their type and meaning."""
    pa = arrow()
    types = {"timestamp[us, tz=UTC]": pa.timestamp("us", "UTC")}
    return pa.schema(
        [
            pa.field(name, types.get(kind) or pa.type_for_alias(kind), metadata={"meaning": said})
            for name, (kind, said) in columns.items()
        ]
    )


def batch_of(schema: Any, rows: Sequence[Sequence[object]]) -> Any:
    """Rows as a batch, times being in microseconds since 1970."""
    pa = arrow()
    columns = zip(schema, zip(*rows, strict=True), strict=True)
    return pa.record_batch([pa.array(held, field.type) for field, held in columns], schema=schema)


def rows_of(table: Any) -> dict[str, list[Any]]:
    """The columns of a table, times being in microseconds since 1970."""
    pa = arrow()
    place = table.schema.get_field_index("recorded_at")
    microseconds = table["recorded_at"].cast(pa.int64())
    found: dict[str, list[Any]] = table.set_column(place, "recorded_at", microseconds).to_pydict()
    return found


def in_words(error: Exception) -> str:
    """What the library says of a file that it can't read, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
