"""The library that reads and writes Parquet, which is an extra and comes with nothing else."""

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
