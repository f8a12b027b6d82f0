"""Where fedteddi keeps what it can make or fetch again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return $FEDTEDDI_CACHE, or fedteddi's folder in the user's cache: pre-trained models, fetched data sets."""
    given = os.environ.get("FEDTEDDI_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedteddi"
