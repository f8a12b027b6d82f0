"""What a paper claims about a study, judged by its runs: paired per seed, with 95 % intervals, never by hand.

A claim is a difference that should be above zero, and comparisons.py says when it is.
"""

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from fedteddi.results.comparisons import (
    Finding,
    Verdict,
    ahead,
    by_seed,
    faster,
    final,
    highest_level,
    mean_over_frame,
    pair,
    points,
    scheduled_new,
    scheduled_old,
    verdict_of,
)
from fedteddi.results.runs import ACCURACIES, REFERENCES, Accuracy, RunRecord, Study
from fedteddi.results.tables import Targets, percent, rounds_to

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

    def judge(self, study: Study, deadlines_s: tuple[float, ...]) -> list[Judged]:
        """Judge at the target and, where that cannot be judged, also at the highest level that is reached."""
        times = (self.deadline_s,) if self.deadline_s is not None else deadlines_s
        where = f", {times[0]:g} s" if self.deadline_s is not None else ""
        text = f"faster than {self.rival}{where}"
        found = []
        for accuracy in ACCURACIES:
            if self.target is not None:
                findings = [self._at(study, time, accuracy, self.target) for time in times]
                claim = f"{text}, to {percent(self.target)}"
                found.append(self._judged(claim, accuracy, self.paper, findings, times))
            pairs = [pair(study, OURS, self.rival, time) for time in times]
            levels = [highest_level([*both], self.frame, accuracy) for both in pairs]
            judged_already = self.target is not None and found[-1].verdict != "cannot be judged"
            if judged_already or (self.target is not None and set(levels) <= {None, self.target}):
                continue
            each = zip(times, levels, strict=True)
            findings = [self._at(study, time, accuracy, level) for time, level in each]
            claim = f"{text}, to the highest level one of them reaches"
            paper = self.paper if self.target is None else "–"
            found.append(self._judged(claim, accuracy, paper, findings, times))
        return found

    def _at(self, study: Study, time: float, accuracy: Accuracy, target: float | None) -> Finding:
        own, theirs = pair(study, OURS, self.rival, time)
        found = faster(own, theirs, self.frame, target, accuracy, f"{time:g} s")
        rules = [by_seed(study, rule, time) for rule in study.schedulers if rule not in REFERENCES]
        every = [run for runs in rules for run in runs.values()]
        if own and target and all(run.rounds_to(self.frame, target, accuracy) is None for run in every):
            short = f"{time:g} s, {percent(target)}: no rule reaches it"
            found = replace(found, short=short, full=f"{found.full}, no run of any rule reaches it")
        return found

    def _judged(
        self, claim: str, accuracy: str, paper: str, findings: list[Finding], times: tuple[float, ...]
    ) -> Judged:
        return Judged(claim, accuracy, paper, tuple(findings), (OURS, self.rival), times)


@dataclass(frozen=True)
class First:
    """Ours is ahead of every rival at every deadline, in speed or in final accuracy."""

    what: Literal["speed", "final accuracy"]
    rivals: tuple[str, ...]
    paper: str
    frame: int = 1

    def judge(self, study: Study, deadlines_s: tuple[float, ...]) -> list[Judged]:
        """Compare with each rival; behind one of them is not first."""
        found = []
        for accuracy in ACCURACIES:
            findings = tuple(self._at(study, time, accuracy) for time in deadlines_s)
            claim = f"first in {self.what} at every deadline"
            found.append(Judged(claim, accuracy, self.paper, findings, (OURS, *self.rivals), deadlines_s))
        return found

    def _at(self, study: Study, time: float, accuracy: Accuracy) -> Finding:
        where = f"{time:g} s"
        pairs = {rival: pair(study, OURS, rival, time) for rival in self.rivals}
        missing = [rival for rival, (own, _) in pairs.items() if not own]
        if missing:
            return Finding("cannot be judged", "–", f"{where}: no runs of {OURS} and {missing[0]}")
        if self.what == "speed":
            every = [runs for both in pairs.values() for runs in both]
            level = highest_level(every, self.frame, accuracy)
            if level is None:
                return Finding("cannot be judged", "–", f"{where}: no rule reaches any level with every seed")
            each = {r: faster(*both, self.frame, level, accuracy, where) for r, both in pairs.items()}
            rounds = {r: rounds_to(both[1], self.frame, level, accuracy) for r, both in pairs.items()}
            best = min(rounds, key=lambda rival: (-rounds[rival].reached, rounds[rival].censored.mean()))
        else:
            each = {
                r: ahead(*both, lambda run, frame: final(run, frame, accuracy), self.frame, where, r)
                for r, both in pairs.items()
            }
            best = max(pairs, key=lambda rival: _mean_final(pairs[rival][1], self.frame, accuracy))
        verdicts = [finding.verdict for finding in each.values()]
        ahead_of = verdicts.count("holds")
        behind = [rival for rival, finding in each.items() if finding.verdict == "does not hold"]
        verdict: Verdict = (
            "does not hold" if behind else "holds" if ahead_of == len(verdicts) else "cannot be judged"
        )
        counted = f"ahead of {ahead_of} of {len(verdicts)}"
        if behind:
            counted += f", behind {', '.join(behind)}"
        return Finding(verdict, f"{where}: {counted}", f"{each[best].full} (best rival: {best}), {counted}")


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
                    findings.append(Finding("cannot be judged", "–", f"{where}: runs are missing"))
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
            ahead(*pair(study, OURS, self.rival, time), scheduled, self.frame, f"{time:g} s", self.rival, 1)
            for time in deadlines_s
        )
        claim = f"more scheduled clients {self.kind} than {self.rival}"
        return [Judged(claim, "–", self.paper, findings, (OURS, self.rival), deadlines_s)]


@dataclass(frozen=True)
class Reproduction:
    """A study of a paper: which experiment, which runs, and what is claimed about them."""

    name: str  # of the experiment, the command's argument, the folders and the page
    title: str
    schedulers: tuple[str, ...]
    deadlines_s: tuple[float, ...]
    targets: Targets
    claims: tuple[Claim, ...]
    quick: dict[str, object]  # settings that `--quick` changes

    def judged(self, study: Study) -> list[Judged]:
        """Hold every claim against a study."""
        return [row for claim in self.claims for row in claim.judge(study, self.deadlines_s)]


def _mean_final(runs: list[RunRecord], frame: int, accuracy: Accuracy) -> float:
    return float(np.mean([final(run, frame, accuracy) for run in runs]))
