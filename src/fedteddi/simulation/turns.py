"""Two halves of many runs take turns with a GPU: it works for one while the other one's servers decide."""

import gc
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from fedteddi.learning.timed import Timed
from fedteddi.simulation.pretrained import Pretraining
from fedteddi.simulation.run import Run

LEAST_RUNS = 6  # of a half: with fewer, a GPU would not have enough to do at a time
SWITCH_S = 2e-4  # after which a thread that decides lets the one that feeds the GPU go on
LISTEN_S = 0.05  # between two looks at how far the halves are


class Stopped(BaseException):
    """Something ended the other half, or the user did: nothing is to be done any more."""


def halves(runs: Sequence[Run], engine: Timed) -> list[list[Run]]:
    """Cut runs into two parts of whole seeds, about equally large; one part where that gains nothing."""
    by_seed: dict[int, list[Run]] = {}
    for run in runs:
        by_seed.setdefault(run.settings.seed, []).append(run)
    parts: list[list[Run]] = [[], []]
    for own in sorted(by_seed.values(), key=len, reverse=True):
        min(parts, key=len).extend(own)
    return parts if engine.together and min(map(len, parts)) >= LEAST_RUNS else [list(runs)]


@dataclass(eq=False)
class Turns:
    """Plays parts of the runs, each in a thread of its own; what it tells, it tells in the thread that called it."""

    engine: Timed
    tell: Callable[[Pretraining | None], None]
    news: SimpleQueue[Pretraining | None] = field(default_factory=SimpleQueue)
    stopping: threading.Event = field(default_factory=threading.Event)
    playing: Sequence["Future[None]"] = ()

    def hear(self, pretraining: Pretraining | None = None) -> None:
        """Take news from a part."""
        if self.stopping.is_set():
            raise Stopped
        self.news.put(pretraining)

    def going(self) -> int:
        """Return how many parts have not ended: so many share the time."""
        return max(1, sum(not one.done() for one in self.playing))

    def play(self, parts: Sequence[Callable[[], None]]) -> None:
        """Play all parts to their end; if one fails, or the user interrupts, stop the others and raise that."""
        with _undisturbed(), ThreadPoolExecutor(len(parts), "fedteddi-turns") as pool:
            self.playing = [pool.submit(self._in_own_stream, part) for part in parts]
            try:
                self._listen()
            except BaseException:
                self.stopping.set()
                raise

    def _in_own_stream(self, part: Callable[[], None]) -> None:
        try:
            with self.engine.own_stream():
                part()
        except Stopped:
            pass

    def _listen(self) -> None:
        """Tell the newest news until all have ended, or one has failed."""
        while True:
            done, going = wait(self.playing, LISTEN_S, FIRST_EXCEPTION)
            news: list[Pretraining | None] = []
            try:
                while True:
                    news.append(self.news.get_nowait())
            except Empty:
                pass
            if news:
                self.tell(news[-1])
            for one in done:
                one.result()
            if not going:
                return


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let threads switch quickly, and Python look for garbage only among what is new."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)
