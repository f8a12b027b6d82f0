"""Which runs begin with another model than the other runs of their seed, though all should begin with the same.

A seed's pre-trained model lies in a cache. Where parts of a study do not share the cache it is trained again, and other
hardware or another program rounds differently, which grows over thousands of steps.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fedteddi.results.runs import RunRecord


@dataclass(frozen=True)
class OtherStart:
    """Runs of a seed that begin with a model of their own; accuracies are those of frame 0's end."""

    seed: int
    names: tuple[str, ...]
    balanced: float
    usual_balanced: float  # of the model that most runs of the seed begin with


def other_starts(named_runs: Iterable[tuple[str, RunRecord]]) -> list[OtherStart]:
    """Find them by the test accuracies of all classes before the first round; names are the caller's."""
    groups: dict[str, list[tuple[str, RunRecord]]] = {}
    for name, run in named_runs:
        if run.stretches[0].is_evaluated:
            groups.setdefault(_depends_on(run), []).append((name, run))
    found = []
    for group in groups.values():
        usual = Counter(_start(run) for _, run in group).most_common(1)[0][0]
        accuracy = {_start(run): run.stretches[0].accuracy("balanced") for _, run in group}
        for other in dict.fromkeys(_start(run) for _, run in group if _start(run) != usual):
            names = tuple(sorted({name for name, run in group if _start(run) == other}))
            found.append(OtherStart(group[0][1].settings.seed, names, accuracy[other], accuracy[usual]))
    return sorted(found, key=lambda start: start.seed)


def started_otherwise(named_runs: Iterable[tuple[str, RunRecord]]) -> str:
    """Say which they are, for a reader; nothing if all is well."""
    found = other_starts(named_runs)
    if not found:
        return ""
    by_names: dict[tuple[str, ...], list[str]] = {}
    for one in found:
        text = f"seed {one.seed} ({one.balanced:.3f}, others {one.usual_balanced:.3f})"
        by_names.setdefault(one.names, []).append(text)
    listed = "; ".join(f"{', '.join(names)}: {', '.join(seeds)}" for names, seeds in by_names.items())
    return (
        "Some runs begin with another pre-trained model than the other runs of their seed, because the parts of the"
        f" study did not share a cache (balanced accuracy before the first round): {listed}. What sets them apart from"
        " the others is in part that start."
    )


def paragraph(sentences: str) -> list[str]:
    """Return what `started_otherwise` says as lines of a page: none if it says nothing."""
    return [f"**Different starts.** {sentences}", ""] if sentences else []


def _start(run: RunRecord) -> str:
    return repr(run.stretches[0].class_accuracy)


def _depends_on(run: RunRecord) -> str:
    """Return what decides a run's first model and how it is evaluated: seed, data, model, pre-training, test images."""
    settings = run.settings
    training = settings.training.model_dump()
    own = {
        key: training[key] for key in training if key in ("model", "augment") or key.startswith("pretrain")
    }
    scenario = settings.scenario.model_dump(exclude={"pooled"})
    return repr([settings.seed, settings.dataset, scenario, own, settings.evaluation.test_images])
