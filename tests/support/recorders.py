"""The recorders of all kinds of stores, for tests that watch or disturb them."""

from alloc_es.store.log import LogRecorder
from alloc_es.store.memory import MemoryRecorder
from alloc_es.store.postgres import PostgresRecorder
from alloc_es.store.sqlite import SQLiteRecorder

RECORDERS: tuple[type[LogRecorder], ...] = (MemoryRecorder, SQLiteRecorder, PostgresRecorder)
