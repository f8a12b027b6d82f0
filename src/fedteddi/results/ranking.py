"""Which rules lead, by one measure everywhere: balanced accuracy, averaged over a frame's evaluations and the seeds."""

from collections.abc import Sequence

import numpy as np

from fedteddi.results.runs import REFERENCES, RunRecord, Study
from fedteddi.results.tables import groups


def mean_balanced(runs: Sequence[RunRecord], frames: Sequence[int]) -> float:
    """Return the mean of balanced accuracy over all evaluations of these frames, and over runs."""
    return float(np.mean([one.accuracy("balanced") for r in runs for f in frames for one in r.evaluated(f)]))


def ranked(
    study: Study, frames: Sequence[int] | None = None, deadline_s: float | None = None
) -> dict[str, float]:
    """Return the rules from the best down, with their means: over all deadlines or at one; bounds are no rules."""
    found: dict[str, list[float]] = {}
    for at, scheduler, runs in groups(study):
        if scheduler not in REFERENCES and deadline_s in (None, at):
            found.setdefault(scheduler, []).append(
                mean_balanced(runs, study.frames if frames is None else frames)
            )
    means = {scheduler: float(np.mean(values)) for scheduler, values in found.items()}
    return dict(sorted(means.items(), key=lambda item: -item[1]))
