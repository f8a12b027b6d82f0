"""Experiments by name: built in, installed, or a TOML file."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from fedteddi.errors import InputError, nearest_hint
from fedteddi.registry import Kind, find, must
from fedteddi.settings.experiment import Settings
from fedteddi.settings.files import read_settings


def _built_in_experiments() -> dict[str, Traversable]:
    found = files("fedteddi").joinpath("experiments").iterdir()
    files_found = {file.name: file for file in found if file.name.endswith(".toml")}
    return {name.removesuffix(".toml"): files_found[name] for name in sorted(files_found)}


def _about_experiment(given: Any) -> str:
    if isinstance(given, Settings):
        return f"the experiment {given.name}"
    return str(given.read_text(encoding="utf-8").partition("\n")[0].lstrip("# "))


EXPERIMENTS = Kind(
    name="experiments",
    one="experiment",
    built_in=_built_in_experiments,
    your_own="give a .toml file",
    check=must(
        lambda given: isinstance(given, Settings | Traversable),
        "is no experiment: it must be fedteddi.Settings, or the path of a .toml file",
    ),
    describe=_about_experiment,
)


def load_experiment(name: str | Path) -> Settings:
    """Load an experiment: a TOML file, or one that has a name."""
    path = Path(name) if str(name).endswith(".toml") else find(EXPERIMENTS, str(name)).value
    if isinstance(path, Settings):
        return path
    try:
        return read_settings(path.read_text(encoding="utf-8"), path.name)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}){_nearest(path)}: give a .toml file"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text: give a .toml file") from None


def _nearest(path: Path) -> str:
    """Return the experiment that may be meant by a file that is not there: a file beside it, or a name."""
    beside = [str(file) for file in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    named = path.stem if path.stem in EXPERIMENTS.built_in() else ""
    return f" (did you mean {named!r}?)" if named else nearest_hint(str(path), beside)
