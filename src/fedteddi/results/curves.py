"""The evaluated rounds of a run as a table."""

import math

import numpy as np
import pandas as pd

from fedteddi.results.runs import REFERENCES, RunRecord, mean_over_classes

CURVE = ["scheduler", "deadline_s", "seed", "frame", "round", "balanced", "global", "old", "new"]


def curve(run: RunRecord) -> pd.DataFrame:
    """Return frame, round, balanced, global, accuracy on old and new classes; in a sweep, the swept keys first."""
    rows = []
    deadline_s = math.nan if run.scheduler in REFERENCES else run.settings.radio.deadline_s
    for frame in range(len(run.counts)):
        old, new = run.old_classes(frame), run.new_classes(frame)
        for record in run.evaluated(frame):
            accuracy = np.array(record.class_accuracy, dtype=float)
            rows.append(
                {
                    **run.point,
                    "scheduler": run.scheduler,
                    "deadline_s": deadline_s,
                    "seed": run.settings.seed,
                    "frame": frame,
                    "round": record.round,
                    "balanced": record.balanced,
                    "global": record.global_,
                    "old": mean_over_classes(accuracy[old]),
                    "new": mean_over_classes(accuracy[new]),
                }
            )
    return pd.DataFrame(rows, columns=[*run.point, *CURVE])
