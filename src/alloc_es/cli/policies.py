"""A policy of the user's by its name, and where in the user's code its errors come from."""

import os
import sys
import sysconfig
import traceback
from functools import reduce
from importlib import import_module
from pathlib import Path

import typer

import alloc_es
from alloc_es.cli.options import UsageError
from alloc_es.cli.output import print_traceback
from alloc_es.errors import AllocationError, InvalidSetting
from alloc_es.proposals import Policy

_LIBRARIES = (
    "<",
    str(Path(alloc_es.__file__).parent),
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)


def load_policy(name: str, context: typer.Context) -> Policy:
    """The policy of a name; what is wrong with it is a usage error in one line."""
    module, _, path = name.partition(":")
    if not module or not path:
        problem = f"{name!r} is not MODULE:FUNCTION, for example policies:decide"
        raise UsageError(problem, context)
    if module.endswith(".py"):
        dotted = os.path.normpath(module)[: -len(".py")].replace(os.sep, ".")
        problem = f"{name!r} names a file, and MODULE is what is imported; write {dotted}:{path}"
        raise UsageError(problem, context)
    # First, as it is for `python -m`.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        policy = reduce(getattr, path.split("."), import_module(module))
    # The module is the user's, and may raise anything.
    except (Exception, SystemExit) as error:
        print_traceback(error)
        raise InvalidSetting("--policy", f"{name} can't be loaded: {described(error)}") from error
    if not callable(policy):
        raise InvalidSetting("--policy", f"{name} is {type(policy).__name__} and can't be called")
    return policy


def described(error: BaseException) -> str:
    """An error of the user's code: its type, its text and its place there."""
    text = f": {error}" if str(error) else ""
    return f"{type(error).__name__}{text}{place_of(error)}"


def place_of(error: BaseException) -> str:
    """Where in the user's code an error comes from, in brackets; empty where it can't be told.

    An error of ours says by itself what is wrong.
    """
    if isinstance(error, AllocationError):
        return ""
    places = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith(_LIBRARIES)
    ]
    if not places:
        return ""
    file, line = places[-1]
    return f" ({Path(file).name}, line {line})"
