"""The one error that means "what you gave us cannot be used": it names the value and the remedy."""

import difflib
import math
import numbers
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path


class InputError(ValueError):
    """Bad input: a report, an option or a file. The command line prints it in one line and exits with 2."""


class DivergedError(InputError):
    """Training left the finite numbers, in this frame and round: the run is over, others may go on."""

    def __init__(self, sentence: str, frame: int, round: int) -> None:
        super().__init__(sentence)
        self.frame, self.round = frame, round


class NoEffectWarning(UserWarning):
    """A setting that no run uses; the command line prints it in one line and goes on."""


class TrackingWarning(UserWarning):
    """A tracker that failed, while the runs go on; the command line prints it in one line."""


def nearest_hint(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the most similar known word, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def check_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the named choices."""
    if value not in choices:
        hint = nearest_hint(value, choices) if isinstance(value, str) else ""
        raise InputError(f"{field}={shown(value)}: choose one of {', '.join(choices)}{hint}")


def check_number(
    field: str,
    value: object,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
    whole: bool = False,
) -> None:
    """Refuse anything but a finite number (a whole one, if asked) inside the given range."""
    kind = numbers.Integral if whole else numbers.Real
    if not isinstance(value, bool) and isinstance(value, kind):
        try:
            number = float(value)
        except OverflowError:  # an integer beyond all floats
            number = math.inf
        if math.isfinite(number) and at_least <= number <= at_most and above < number < below:
            return
    limits = [f"at least {at_least:g}"] if at_least > -math.inf else []
    limits += [f"above {above:g}"] if above > -math.inf else []
    limits += [f"at most {at_most:g}"] if at_most < math.inf else []
    limits += [f"below {below:g}"] if below < math.inf else []
    raise InputError(
        f"{field}={shown(value)}: give a {'whole' if whole else 'finite'} number"
        + (f" {' and '.join(limits)}" if limits else "")
    )


def shown(value: object) -> str:
    """Return a value as it should appear in a message: short, and numpy's numbers as plain ones."""
    text = repr(value.item() if isinstance(value, numbers.Number) and hasattr(value, "item") else value)
    return text if len(text) <= 60 else f"{text[:57]}…"


@contextmanager
def reworded(sentence: Callable[[BaseException], str]) -> Iterator[None]:
    """Turn whatever foreign code raises, sys.exit included, into one sentence; an InputError is one already."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(sentence(error)) from error


def guarded(part: str, kind: str) -> AbstractContextManager[None]:
    """Turn whatever this part of a kind raises into one sentence that names it."""
    return reworded(
        lambda error: f"{part} {_deed(error)}{fault_place(error)}; try 'fedteddi check --kind {kind}' on it"
    )


def _deed(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"called sys.exit({error.code})"
    return f"raised {type(error).__name__}: {error}"


def fault_place(error: BaseException) -> str:
    """Return " (file, line n)" where an error was raised, for messages."""
    frames = list(traceback.extract_tb(error.__traceback__))
    if isinstance(error, SystemExit):  # some libraries put a function of theirs in the place of sys.exit
        frames = [frame for frame in frames if "site-packages" not in frame.filename] or frames
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
