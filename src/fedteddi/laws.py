"""One way to try the invariants of a seam: `fedteddi check`, runs and tests use it for every kind of part."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from fedteddi.errors import fault_place

Case = TypeVar("Case")
Law = Callable[[Any, Case], Iterable[str]]  # a part and a case in, faults out, in words


def raised(error: BaseException) -> str:
    """Say what was raised and where."""
    return f"raised {type(error).__name__}: {error}{fault_place(error)}"


class NotTried(str):
    """In place of a fault: the part failed before this law could be tried."""

    __slots__ = ()


def first_faults(
    laws: Mapping[str, Law[Case]],
    cases: Iterable[Case],
    ask: Callable[[Law[Case], Case], Iterable[str]],
    *,
    in_words: Callable[[BaseException], str] = raised,
    essential: Collection[str] = (),
) -> dict[str, tuple[str, Case]]:
    """Return the first fault of each law that is not kept, and the case it was found in, in the order of the laws.

    Whatever is raised breaks the first law, which is that there is an answer. Where an `essential` law is broken,
    the laws after it are not tried: they presume it. A law without a fault that was not tried in every case has
    `NotTried`, and the first case that it lacks.
    """
    answers = next(iter(laws))
    found: dict[str, tuple[str, Case]] = {}
    missed: dict[str, list[Case]] = {name: [] for name in laws}
    tried_cases = 0
    for case in cases:
        tried_cases += 1
        untried = list(laws)
        for name, law in laws.items():
            try:
                fault = next(iter(ask(law, case)), None)
                untried.remove(name)
            except (Exception, SystemExit) as error:
                name, fault = answers, in_words(error)
            if fault is not None:
                found.setdefault(name, (fault, case))
                if name in essential:
                    break
        for name in untried:
            missed[name].append(case)
    for name, lacking in missed.items():
        if lacking and name not in found:
            some = "" if len(lacking) == tried_cases else f" in {len(lacking)} of {tried_cases} cases"
            found[name] = NotTried(f"not tried{some}"), lacking[0]
    return {name: found[name] for name in laws if name in found}


def broken_laws(
    laws: Mapping[str, Law[Case]],
    cases: Iterable[Case],
    ask: Callable[[Law[Case], Case], Iterable[str]],
    in_words: Callable[[BaseException], str] = raised,
) -> dict[str, str]:
    """Return the first fault of each law that is not kept, by its name."""
    return {name: fault for name, (fault, _) in first_faults(laws, cases, ask, in_words=in_words).items()}
