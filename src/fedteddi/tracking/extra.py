"""Importing the library of a tracker: each is an extra."""

from importlib import import_module
from typing import Any

from fedteddi.errors import InputError


def extra(module: str, called: str, name: str) -> Any:
    """Import a module of the library that an extra brings, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(f"{called} is not installed ({error}): pip install 'fedteddi[{name}]'") from None
