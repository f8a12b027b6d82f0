"""Let a process go on as if some modules were not installed. It imports nothing of ours, so it can come first."""

import sys
from collections.abc import Collection
from importlib.machinery import ModuleSpec
from typing import Any, cast


class Hiding:
    """A finder of modules that finds all but the hidden ones, as if they were not installed."""

    def __init__(self, finder: Any, hidden: Collection[str]) -> None:
        self.finder, self.hidden = finder, hidden

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find no hidden module, and nothing inside one."""
        if name.partition(".")[0] in self.hidden:
            return None
        return cast(ModuleSpec | None, self.finder.find_spec(name, path, target))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)


def hide(modules: Collection[str]) -> None:
    """Let this process go on as if these modules were not installed."""
    sys.meta_path[:] = [Hiding(finder, modules) for finder in sys.meta_path]
