"""What was found about a claim in one place (a frame at a deadline), and the row of a page it becomes."""

from dataclasses import dataclass

import numpy as np

from fedteddi.results.runs import Accuracy
from fedteddi.results.tables import percent
from fedteddi.studies.comparison import Comparison, Mark, Verdict, compared_rounds, together
from fedteddi.studies.outcomes import NONE, Outcomes, Place

LESS = {"fewer rounds": "more rounds", "faster": "slower"}  # what a negative gain is called
TURNED = str.maketrans("≥≤", "≤≥")


@dataclass(frozen=True)
class Finding:
    """What was found in one place: in a few words and in full, with the numbers behind it."""

    verdict: Verdict
    short: str
    full: str
    mark: Mark = "not run"  # seed by seed
    numbers: Comparison | None = None
    at: str = ""  # the accuracy to be reached, where the claim names none

    @property
    def is_behind(self) -> bool:
        """Whether ours is behind with any seed."""
        return self.numbers is None or bool((self.numbers.differences < 0).any())

    @property
    def seeds(self) -> int:
        """On how many seeds it was compared."""
        return len(self.numbers.differences) if self.numbers else 0


@dataclass(frozen=True)
class Result:
    """A claim beside what was found: one row of a page. The verdict covers all findings."""

    claim: str
    accuracy: str  # or – where it concerns none
    paper: str
    findings: tuple[Finding, ...]
    schedulers: tuple[str, ...]  # whose runs it needs
    deadlines_s: tuple[float, ...]

    @property
    def ours(self) -> str:
        """The rule that the claim is about."""
        return self.schedulers[0]

    @property
    def verdict(self) -> Verdict:
        """Holds if every finding does; does not if one does not."""
        return together(finding.verdict for finding in self.findings)

    @property
    def title(self) -> str:
        """The claim and the accuracy it is about."""
        return self.claim if self.accuracy == NONE else f"{self.claim} ({self.accuracy})"


def unknown(why: str, mark: Mark = "not run") -> Finding:
    """Return the finding of a comparison that could not be made."""
    return Finding("inconclusive", why, why, mark)


def decided(numbers: Comparison, short: str, full: str = "") -> Finding:
    """Return the finding of a comparison, with its verdict."""
    return Finding(numbers.verdict, short, full or short, numbers.mark, numbers)


def faster(
    found: Outcomes, than: str, place: Place, accuracy: str, target: float | None, gain: str = "faster"
) -> Finding:
    """Compare the rounds to a target; `gain` is what is told in short."""
    seeds = found.seeds((found.ours, than), place.deadline_s, place.frame)
    if not seeds:
        return unknown(f"{place.name}: runs are missing")
    if target is None:
        why = "neither reaches a multiple of 5 % above all starts with every seed"
        return unknown(f"{place.name}: {why}", "not reached")
    both = [found.rounds_to(rule, place, accuracy, target, seeds) for rule in (found.ours, than)]
    numbers = compared_rounds(*both)
    facts, where = numbers.shown, f"{place.name}, {percent(target)}"
    if not any(rounds.censored.any() for rounds in both):
        return decided(numbers, f"{where}: already met at round 0 by both")
    short = full = f"{where}: {facts['ours']} against {facts['theirs']} rounds"
    if facts[gain] != "–" and "-" not in facts[gain]:
        short = f"{where}: {facts[gain]} {gain}"
    full += "".join(f", {in_words(facts[way], way)}" for way in LESS if facts[way] != "–")
    full += f", difference {facts['difference']}" if facts["difference"] != "–" else ""
    full += f" (seeds: {numbers.signs})" if numbers.signs and len(seeds) > 1 else ""
    return decided(numbers, short, full)


def in_words(gain: str, way: str) -> str:
    """Return how much is gained, or lost: "-31% fewer rounds" would take a second reading."""
    bound, minus, amount = gain.partition("-")
    return f"{bound.translate(TURNED)}{amount} {LESS[way]}" if minus else f"{gain} {way}"


def ahead(found: Outcomes, metric: str, than: str, place: Place, accuracy: str, digits: int = 3) -> Finding:
    """Compare a number with a baseline's."""
    numbers = found.compare(metric, [than], place, accuracy, digits)
    if numbers is None:
        return unknown(f"{place.name}: no pair of runs with {than}")
    facts = numbers.shown
    text = f"{place.name}: {facts['ours']} against {facts['theirs']}, difference {facts['difference']}"
    return decided(numbers, f"{place.name}: {facts['difference']}", text)


def counted(where: str, each: dict[str, Finding], missing: list[str]) -> Finding:
    """Count of how many baselines ours is ahead; the comparison with the best of them is shown in full."""
    ranks = {rule: finding.numbers.rank for rule, finding in each.items() if finding.numbers}
    best = min(ranks, key=lambda rule: ranks[rule])
    verdicts: list[Verdict] = [finding.verdict for finding in each.values()]
    # Not ahead is not behind: the two may be the same.
    behind = [rule for rule, one in each.items() if one.verdict == "does not hold" and one.is_behind]
    short = full = f"ahead of {verdicts.count('holds')} of {len(verdicts)}"
    if behind:
        full += f", behind {', '.join(behind)}"
        short = full if len(behind) <= 2 else f"{short}, behind {len(behind)}"
    without = f", no runs with {', '.join(missing)}" if missing else ""
    verdicts += ["inconclusive"] if missing else []
    full = f"{each[best].full} (best baseline: {best}), {full}{without}"
    return Finding(together(verdicts), f"{where}: {short}{without}", full)


def above_all(found: Outcomes, others: list[str], place: Place, accuracy: Accuracy) -> str:
    """Say at how many evaluations of a frame's rounds our mean curve lies above each other's."""

    def curve(rule: str, seeds: list[int]) -> np.ndarray:
        runs = [run for run in found.study.of(rule, place.deadline_s) if run.settings.seed in seeds]
        curves = [[r.accuracy(accuracy) for r in run.evaluated(place.frame) if r.round] for run in runs]
        return np.asarray(np.mean(curves, axis=0))

    shared = {rule: found.seeds((found.ours, rule), place.deadline_s) for rule in others}
    above = np.all([curve(found.ours, own) > curve(rule, own) for rule, own in shared.items()], axis=0)
    return f"its mean curve above theirs at {above.sum()} of {len(above)} evaluations"
