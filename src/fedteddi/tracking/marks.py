"""What a run's folder says of its trackers: how much each has heard, so that nothing is told twice."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fedteddi.errors import InputError

NAME = "tracking.json"


@dataclass
class Mark:
    """How much a tracker has heard of a run."""

    told: int = 0  # records
    kept: str | None = None  # what on_start returned
    open: bool = False  # it has heard of the start, and not yet of an end


def read_marks(folder: Path) -> dict[str, Mark]:
    """Return the marks of a run's folder, by tracker."""
    try:
        found = json.loads((folder / NAME).read_text(encoding="utf-8"))
        return {name: Mark(**mark) for name, mark in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"{folder / NAME} cannot be read ({error}): trackers are not told of the rounds played before"
        ) from None


def write_marks(folder: Path, marks: dict[str, Mark]) -> None:
    """Replace the marks; not synced to the disk, since this is done for every round."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{NAME}.new"
    draft.write_text(json.dumps({name: asdict(mark) for name, mark in marks.items()}), encoding="utf-8")
    draft.replace(folder / NAME)
