"""Where one rule stands among all others without a target: accuracy over a frame's rounds, and at its end.

Rounds to a target say little where most targets lie out of everybody's reach, or where all rules start above them.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from fedteddi.results.cells import contests
from fedteddi.results.comparisons import final, mean_over_frame, points, verdict_of
from fedteddi.results.runs import Accuracy, RunRecord, Study
from fedteddi.results.tables import spread

MEASURES: dict[str, Callable[[RunRecord, int, Accuracy], float]] = {
    "mean over the frame": mean_over_frame,
    "at its end": final,
}


def standing_table(study: Study, ours: str) -> pd.DataFrame:
    """Return our rule's place and the best other rule, for each frame, deadline and accuracy; seeds that all have."""
    rows = []
    for frame, deadline_s, accuracy, runs in contests(study, ours):
        for name, measure in MEASURES.items():
            values = {
                rule: np.array([measure(run, frame, accuracy) for run in own]) for rule, own in runs.items()
            }
            where = {"frame": frame, "deadline s": deadline_s, "accuracy": accuracy, "measure": name}
            rows.append(where | _standing(values, ours))
    table = pd.DataFrame(rows)
    return table.drop(columns="frame") if len(rows) and len(study.frames) == 1 else table


def _standing(values: dict[str, np.ndarray], ours: str) -> dict[str, object]:
    """Return a row: our value, place, the best other rule, and from whom a 95 % interval tells us apart."""
    mine = values[ours]
    others = {rule: of_seeds for rule, of_seeds in values.items() if rule != ours}
    best = max(others, key=lambda rule: float(others[rule].mean()))
    # "Does not hold" of the one is not "ahead" of the other: they may be the same.
    ahead = {rule for rule, of_seeds in others.items() if verdict_of(mine - of_seeds) == "holds"}
    behind = {rule for rule, of_seeds in others.items() if verdict_of(of_seeds - mine) == "holds"}
    open_ = [rule for rule in others if rule not in ahead | behind]
    return {
        "seeds": len(mine),
        "ours": spread(mine.tolist()),
        "place": f"{1 + sum(float(o.mean()) > float(mine.mean()) for o in others.values())} of {len(values)}",
        "best other rule": f"{best}, {spread(others[best].tolist())}",
        "difference (95 %)": points(mine - others[best]),
        "clearly ahead of": len(ahead),
        "clearly behind": len(behind),
        "not told apart from": "any" if len(open_) == len(others) > 1 else ", ".join(open_) or "–",
    }
