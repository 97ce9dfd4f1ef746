"""`python -m alloc_es.cli` is `alloc-es`."""

from alloc_es.cli import main

if __name__ == "__main__":
    main()
