"""The command line: one file per group of commands; `output` and `progress` print for them."""

from fedteddi.cli.app import main

__all__ = ["main"]
