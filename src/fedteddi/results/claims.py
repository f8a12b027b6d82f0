"""What a paper claims about a study, judged by its runs: paired per seed, with 95 % intervals, never by hand.

A claim is a difference that should be above zero, and comparisons.py says when it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

import numpy as np

from fedteddi.results.comparisons import (
    Finding,
    Gain,
    Verdict,
    above_all,
    ahead,
    by_seed,
    faster,
    final,
    highest_level,
    late_drop,
    mean_over_frame,
    pair,
    places,
    points,
    reached_levels,
    scheduled_new,
    scheduled_old,
    unknown,
    verdict_of,
)
from fedteddi.results.runs import ACCURACIES, REFERENCES, Accuracy, Study
from fedteddi.results.tables import percent, rounds_to

OURS = "fedteddi"


@dataclass(frozen=True)
class Judged:
    """A claim beside what was found: one row of the page. The verdict covers all findings."""

    claim: str
    accuracy: str  # or – where it concerns no accuracy
    paper: str
    findings: tuple[Finding, ...]
    schedulers: tuple[str, ...]  # whose runs it needs
    deadlines_s: tuple[float, ...]

    @property
    def verdict(self) -> Verdict:
        """Holds if every finding does; does not if one does not."""
        verdicts = {finding.verdict for finding in self.findings}
        if verdicts == {"holds"}:
            return "holds"
        return "does not hold" if "does not hold" in verdicts else "cannot be judged"


class Claim(Protocol):
    """Something a paper says about a study."""

    def judge(self, study: Study, deadlines_s: tuple[float, ...]) -> list[Judged]:
        """Hold it against the runs, for both accuracies."""


@dataclass(frozen=True)
class Faster:
    """Ours reaches a target in fewer rounds than a rival."""

    rival: str
    paper: str
    # Where the paper does not say: judged at the highest level that one of the two reaches, and at all deadlines.
    target: float | None = None
    deadline_s: float | None = None
    frame: int = 1
    gain: Gain = "faster"  # how the paper counts it

    def judge(self, study: Study, deadlines_s: tuple[float, ...]) -> list[Judged]:
        """Judge at the target and, where that cannot be judged, also at the highest level that is reached."""
        times = (self.deadline_s,) if self.deadline_s is not None else deadlines_s
        where = dict(places(study, self.frame, times))
        text = f"{self.gain} than {self.rival}"
        if self.deadline_s is not None:
            text += f", {self.deadline_s:g} s"
        if len(study.frames) > 1:
            text = f"frame {self.frame}: {text}"
        found = []
        for accuracy in ACCURACIES:
            if self.target is not None:
                findings = [self._at(study, time, where[time], accuracy, self.target) for time in times]
                claim = f"{text}, to {percent(self.target)}"
                found.append(self._judged(claim, accuracy, self.paper, findings, times))
            pairs = [pair(study, OURS, self.rival, time, self.frame) for time in times]
            levels = [highest_level([*both], self.frame, accuracy) for both in pairs]
            judged_already = self.target is not None and found[-1].verdict != "cannot be judged"
            if judged_already or (self.target is not None and set(levels) <= {None, self.target}):
                continue
            each = zip(times, levels, strict=True)
            findings = [self._at(study, time, where[time], accuracy, level) for time, level in each]
            claim = f"{text}, to the highest level one of them reaches"
            paper = self.paper if self.target is None else "–"
            found.append(self._judged(claim, accuracy, paper, findings, times))
        return found

    def _at(self, study: Study, time: float, where: str, accuracy: Accuracy, target: float | None) -> Finding:
        own, theirs = pair(study, OURS, self.rival, time, self.frame)
        found = faster(own, theirs, self.frame, target, accuracy, where, self.gain)
        rules = [by_seed(study, rule, time) for rule in study.schedulers if rule not in REFERENCES]
        every = [run for runs in rules for run in runs.values()]
        if own and target and all(run.rounds_to(self.frame, target, accuracy) is None for run in every):
            short = f"{where}, {percent(target)}: no rule reaches it"
            found = replace(found, short=short, full=f"{found.full}, no run of any rule reaches it")
        return found

    def _judged(
        self, claim: str, accuracy: str, paper: str, findings: list[Finding], times: tuple[float, ...]
    ) -> Judged:
        return Judged(claim, accuracy, paper, tuple(findings), (OURS, self.rival), times)


@dataclass(frozen=True)
class First:
    """Ours is ahead of every rival, at every deadline and in every frame that is named."""

    what: Literal["speed", "speed to each level", "final accuracy", "mean accuracy over the frame"]
    rivals: tuple[str, ...]
    paper: str
    frames: tuple[int, ...] = (1,)

    def judge(self, study: Study, deadlines_s: tuple[float, ...]) -> list[Judged]:
        """Compare with each rival; behind one of them is not first."""
        found = []
        frames = "in every frame" if len(study.frames) > 1 else ""
        deadlines = "at every deadline" if len(deadlines_s) > 1 or not frames else ""
        claim = " ".join(word for word in (f"first in {self.what}", frames, deadlines) if word)
        for accuracy in ACCURACIES:
            findings = tuple(
                finding
                for frame in self.frames
                for time, where in places(study, frame, deadlines_s)
                for finding in self._at(study, frame, time, where, accuracy)
            )
            found.append(Judged(claim, accuracy, self.paper, findings, (OURS, *self.rivals), deadlines_s))
        return found

    def _at(self, study: Study, frame: int, time: float, where: str, accuracy: Accuracy) -> Iterator[Finding]:
        both = {rival: pair(study, OURS, rival, time, frame) for rival in self.rivals}
        pairs = {rival: runs for rival, runs in both.items() if runs[0]}
        missing = [rival for rival in self.rivals if rival not in pairs]
        if not pairs:
            yield unknown(f"{where}: no runs of {OURS} and {missing[0]}")
        elif "accuracy" in self.what:
            chosen = final if self.what == "final accuracy" else mean_over_frame
            value = partial(chosen, accuracy=accuracy)
            each = {rival: ahead(*runs, value, frame, where, rival) for rival, runs in pairs.items()}
            means = {rival: np.mean([value(run, frame) for run in runs[1]]) for rival, runs in pairs.items()}
            best = max(means, key=lambda rival: means[rival])
            found = _counted(where, each, best, missing)
            if self.what == "mean accuracy over the frame":
                above, evaluations = above_all(list(pairs.values()), frame, accuracy)
                often = f", its mean curve above theirs at {above} of {evaluations} evaluations"
                found = replace(found, full=found.full + often)
            yield found
        else:
            every = [list(by_seed(study, rule, time).values()) for rule in (OURS, *pairs)]
            levels = reached_levels(every, frame, accuracy)
            if not levels:
                yield unknown(f"{where}: no rule reaches a multiple of 5 % above all starts with every seed")
            for level in levels if self.what == "speed to each level" else levels[-1:]:
                each = {r: faster(*runs, frame, level, accuracy, where) for r, runs in pairs.items()}
                rounds = {r: rounds_to(runs[1], frame, level, accuracy) for r, runs in pairs.items()}
                best = min(rounds, key=lambda rival: (-rounds[rival].share, rounds[rival].censored.mean()))
                named = where if self.what == "speed" else f"{where}, {percent(level)}"
                yield _counted(named, each, best, missing)


def _counted(where: str, each: dict[str, Finding], best: str, missing: list[str]) -> Finding:
    """Count of how many rivals ours is ahead; the comparison with the best of them is shown in full."""
    verdicts = [finding.verdict for finding in each.values()]
    ahead_of = verdicts.count("holds")
    behind = [rival for rival, finding in each.items() if finding.verdict == "does not hold"]
    all_of_them = ahead_of == len(verdicts) and not missing
    verdict: Verdict = "does not hold" if behind else "holds" if all_of_them else "cannot be judged"
    short = full = f"ahead of {ahead_of} of {len(verdicts)}"
    if behind:
        full += f", behind {', '.join(behind)}"
        short = full if len(behind) <= 2 else f"{short}, behind {len(behind)}"
    without = f", no runs with {', '.join(missing)}" if missing else ""
    return Finding(
        verdict, f"{where}: {short}{without}", f"{each[best].full} (best rival: {best}), {full}{without}"
    )


@dataclass(frozen=True)
class MostAtTightest:
    """Our lead over the mean of the rivals is largest at the tightest deadline."""

    what: Literal["final accuracy", "mean accuracy over the frame"]
    rivals: tuple[str, ...]
    paper: str
    frame: int = 1

    def judge(self, study: Study, deadlines_s: tuple[float, ...]) -> list[Judged]:
        """Compare the per-seed lead at the tightest deadline with that at each other one."""
        found = []
        claim = f"the lead in {self.what} is largest at the tightest deadline"
        tight, *others = sorted(deadlines_s)
        for accuracy in ACCURACIES:
            leads = {time: self._leads(study, time, accuracy) for time in deadlines_s}
            findings = []
            for time in others:
                seeds = sorted(set(leads[tight]) & set(leads[time]))
                where = f"{tight:g} s against {time:g} s"
                differences = np.array([leads[tight][s] - leads[time][s] for s in seeds])
                if len(seeds) == 0:
                    findings.append(unknown(f"{where}: runs are missing"))
                    continue
                means = [np.mean([leads[t][s] for s in seeds]) for t in (tight, time)]
                text = (
                    f"{where}: lead {means[0]:+.3f} against {means[1]:+.3f}, difference {points(differences)}"
                )
                findings.append(Finding(verdict_of(differences), f"{where}: {points(differences)}", text))
            found.append(
                Judged(claim, accuracy, self.paper, tuple(findings), (OURS, *self.rivals), deadlines_s)
            )
        return found

    def _leads(self, study: Study, time: float, accuracy: Accuracy) -> dict[int, float]:
        """Return ours minus the mean of the rivals, by seed; only seeds that all of them have."""
        value = final if self.what == "final accuracy" else mean_over_frame
        by_rule = {rule: by_seed(study, rule, time) for rule in (OURS, *self.rivals)}
        seeds = set.intersection(*(set(runs) for runs in by_rule.values()))
        return {
            seed: value(by_rule[OURS][seed], self.frame, accuracy)
            - float(np.mean([value(by_rule[r][seed], self.frame, accuracy) for r in self.rivals]))
            for seed in seeds
        }


@dataclass(frozen=True)
class MoreScheduled:
    """Ours schedules more clients of a kind in a round than a rival."""

    kind: Literal["with new classes", "with only old classes"]
    rival: str
    paper: str
    frame: int = 1

    def judge(self, study: Study, deadlines_s: tuple[float, ...]) -> list[Judged]:
        """Compare the mean number a round, per seed and deadline."""
        scheduled = scheduled_new if self.kind == "with new classes" else scheduled_old
        findings = tuple(
            ahead(
                *pair(study, OURS, self.rival, time, self.frame), scheduled, self.frame, where, self.rival, 1
            )
            for time, where in places(study, self.frame, deadlines_s)
        )
        claim = f"more scheduled clients {self.kind} than {self.rival}"
        return [Judged(claim, "–", self.paper, findings, (OURS, self.rival), deadlines_s)]


@dataclass(frozen=True)
class SmallerLateDrop:
    """Ours falls less from a frame's best accuracy to its last than a rival does."""

    rival: str
    paper: str
    frames: tuple[int, ...] = (1,)

    def judge(self, study: Study, deadlines_s: tuple[float, ...]) -> list[Judged]:
        """Compare the drops per seed, in each frame."""
        claim = f"a smaller late drop than {self.rival} in every frame"
        found = []
        for accuracy in ACCURACIES:
            measure = partial(late_drop, accuracy=accuracy)
            findings = tuple(
                ahead(
                    *pair(study, OURS, self.rival, time, frame),
                    measure,
                    frame,
                    where,
                    self.rival,
                    smaller=True,
                )
                for frame in self.frames
                for time, where in places(study, frame, deadlines_s)
            )
            found.append(Judged(claim, accuracy, self.paper, findings, (OURS, self.rival), deadlines_s))
        return found
