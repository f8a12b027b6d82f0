"""What is not in the core: which extra of the package brings which module, and what is said when it is missing."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from fedteddi.errors import InputError

# Module → the extras of pyproject.toml that bring it; the first one is what to install if nothing else is known.
BROUGHT_BY = {
    "torch": ("sim",),
    "safetensors": ("sim",),
    "pooch": ("sim",),
    "requests": ("sim",),
    "pandas": ("sim", "report"),
    "matplotlib": ("sim", "report"),
    "PIL": ("sim", "report"),
    "jinja2": ("sim", "report"),
    "plotly": ("report",),
    "flwr": ("flower",),
    "ray": ("ray",),
    "sionna": ("sionna",),
    "onnx": ("onnx",),
    "onnxscript": ("onnx",),
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow",),
    "wandb": ("wandb",),
    "trackio": ("trackio",),
}
T = TypeVar("T", bound=type)


class MissingExtraError(ModuleNotFoundError, InputError):
    """A module that an extra brings is not installed; the text says which command installs it."""


def install_command(module: str) -> str:
    """Return the command that installs what brings this module: pip install 'fedteddi[sim]'."""
    return f"pip install 'fedteddi[{BROUGHT_BY[module][0]}]'"


def missing_extra(what: str, error: BaseException) -> MissingExtraError | None:
    """Return the sentence for an import that failed because an extra is missing; None if it failed otherwise."""
    module = ((error.name if isinstance(error, ModuleNotFoundError) else None) or "").partition(".")[0]
    if module not in BROUGHT_BY:
        return None
    lighter = "".join(
        f"; to report on finished runs, fedteddi[{name}] is enough" for name in BROUGHT_BY[module][1:]
    )
    sentence = f"{what} needs {module}, which is not installed: {install_command(module)}{lighter}"
    return MissingExtraError(sentence, name=module)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn an import that fails because an extra is missing into one sentence about `what`."""
    try:
        yield
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        sentence = missing_extra(what, error)
        if sentence is None:
            raise
        raise sentence from None


def imported(module: str, what: str) -> Any:
    """Import a module that an extra brings, for `what`."""
    with explained(what):
        return import_module(module)


def explains_missing(part: T) -> T:
    """Let every method of a class say which extra it lacks: those that draw import what they draw with when called."""
    for name, method in inspect.getmembers(part, inspect.isfunction):
        if not name.startswith("__"):
            setattr(part, name, explained(f"{part.__name__}.{name}")(method))
    return part
