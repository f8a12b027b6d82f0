"""One way to try the invariants of a seam: `fedteddi check`, runs and tests use it for every kind of part."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from fedteddi.errors import fault_place

Case = TypeVar("Case")
Law = Callable[[Any, Case], Iterable[str]]  # a part and a case in, faults out, in words


def raised(error: BaseException) -> str:
    """Say what was raised and where."""
    return f"raised {type(error).__name__}: {error}{fault_place(error)}"


def first_faults(
    laws: Mapping[str, Law[Case]],
    cases: Iterable[Case],
    ask: Callable[[Law[Case], Case], Iterable[str]],
    *,
    in_words: Callable[[BaseException], str] = raised,
    essential: Collection[str] = (),
) -> dict[str, tuple[str, Case]]:
    """Return the first fault of each law that is broken, and the case it was found in, in the order of the laws.

    Whatever is raised breaks the first law, which is that there is an answer. Where an `essential` law is broken,
    the laws after it are not tried: they presume it.
    """
    answers = next(iter(laws))
    found: dict[str, tuple[str, Case]] = {}
    for case in cases:
        for name, law in laws.items():
            try:
                fault = next(iter(ask(law, case)), None)
            except (Exception, SystemExit) as error:
                name, fault = answers, in_words(error)
            if fault is not None:
                found.setdefault(name, (fault, case))
                if name in essential:
                    break
    return {name: found[name] for name in laws if name in found}


def broken_laws(
    laws: Mapping[str, Law[Case]],
    cases: Iterable[Case],
    ask: Callable[[Law[Case], Case], Iterable[str]],
    in_words: Callable[[BaseException], str] = raised,
) -> dict[str, str]:
    """Return the first fault of each law that is broken, by its name."""
    return {name: fault for name, (fault, _) in first_faults(laws, cases, ask, in_words=in_words).items()}
