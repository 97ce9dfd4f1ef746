"""The read models that ship with alloc-es, one file each."""
