"""How far an experiment is, on stderr while it runs, and in the end what the time went into."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedteddi.cli.output import PLAIN_LINE_EVERY_S, err, progress_bar, say

if TYPE_CHECKING:
    from fedteddi.experiment import Progress, Watch
    from fedteddi.simulation.pretrained import Pretraining

LINES_LOOKED_BACK = 12  # a minute


@contextmanager
def watching() -> "Iterator[Watch]":
    """Show progress on stderr, and in the end what the time went into."""
    spent: dict[str, float] = {}
    said: list[str] = []
    with _progress() as show:

        def watch(state: "Progress") -> None:
            spent.update(state.seconds)
            for sentence in state.news[len(said) :]:
                said.append(sentence)
                say("warning", sentence)
            show(state)

        try:
            yield watch
        except KeyboardInterrupt:
            say("warning", "interrupted; what is kept goes on with the same command and --resume")
            raise
    total = sum(spent.values())
    if total:
        shares = (f"{seconds / total:.0%} {purpose}" for purpose, seconds in spent.items())
        err.print(f"{total:.0f} s: {', '.join(shares)}")


@contextmanager
def _progress() -> "Iterator[Watch]":
    """Show a live bar in a terminal, a line now and then elsewhere; pre-training has its own pace."""
    stages = _Stages()
    if err.is_terminal:
        with progress_bar() as bar:
            task = bar.add_task("starting", total=None)

            def live(state: "Progress") -> None:
                done, in_all = _done(state)
                show = bar.reset if stages.begins(state) else bar.update  # a reset forgets the pace
                show(task, total=in_all, completed=done, description=_pretraining(state) or _status(state))

            yield live
        return
    lines: list[tuple[float, int]] = []  # when, and how many rounds, or steps of pre-training, were done
    said_at = -math.inf

    def plain(state: "Progress") -> None:
        nonlocal said_at
        now, (done, in_all) = time.monotonic(), _done(state)
        if stages.begins(state):
            lines.clear()
        if now - said_at >= PLAIN_LINE_EVERY_S or done == in_all:
            said_at = now
            lines.append((now, done))
            left = time_left(lines, in_all)
            where = _pretraining(state)
            err.print(f"{where}{left}" if where else f"{done}/{in_all} rounds{left}, {_status(state)}")

    yield plain


class _Stages:
    """Tells when something with a pace of its own begins: pre-training of the next model, or the rounds."""

    def __init__(self) -> None:
        self._last: Pretraining | None = None

    def begins(self, state: "Progress") -> bool:
        now, last = state.pretraining, self._last
        self._last = now
        if now is None or last is None:
            return (now is None) != (last is None)
        return now.seed != last.seed or now.step < last.step  # a seed may have several models


def _done(state: "Progress") -> tuple[int, int]:
    """Return how many rounds are done and how many there are; while a model is pre-trained, of its steps."""
    if state.pretraining is not None:
        return state.pretraining.step, state.pretraining.steps
    return state.rounds_done, state.rounds_in_all


def _pretraining(state: "Progress") -> str:
    """Say how far pre-training is; nothing if there is none now."""
    found = state.pretraining
    return f"pre-training, seed {found.seed}: epoch {found.epoch} of {found.epochs}" if found else ""


def time_left(lines: Sequence[tuple[float, int]], rounds_in_all: int) -> str:
    """Say how long the rest takes at the pace of late, as ", 3 min left"; nothing where there is no pace yet.

    What lies before the second line does not count: on a GPU, the first round is mostly compilation.
    """
    late = lines[1:][-LINES_LOOKED_BACK:]
    if not late or late[-1][1] in (late[0][1], rounds_in_all):
        return ""
    (first_s, first_done), (last_s, last_done) = late[0], late[-1]
    seconds = (rounds_in_all - last_done) * (last_s - first_s) / (last_done - first_done)
    if seconds < 90:
        return f", {seconds:.0f} s left"
    return f", {seconds / 60:.0f} min left" if seconds < 5400 else f", {seconds / 3600:.1f} h left"


def _status(state: "Progress") -> str:
    """Say where the first run is: its last round, its last test accuracy, scheduled new and old clients."""
    run = state.runs[0]
    if not run.records:
        return run.settings.name
    last = run.records[-1]
    words = [f"{run.settings.name} frame {last.frame} round {last.round}"]
    evaluated = next((r for r in reversed(run.records) if r.is_evaluated), None)
    if evaluated is not None:
        when = "" if evaluated is last else f" after round {evaluated.round}"
        words.append(f"accuracy {evaluated.balanced:.3f} balanced, {evaluated.global_:.3f} global{when}")
    if last.round:
        new = last.scheduled_new
        words.append(f"scheduled {new} new + {len(last.clients) - new} old")
    return ", ".join(words)
