"""What a study is: a TOML file that says which runs it consists of, and what is claimed about them."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from fedteddi.errors import InputError, nearest_hint, shown
from fedteddi.results.runs import ACCURACIES, REFERENCES, Accuracy, Study
from fedteddi.schedulers.registry import named_rule
from fedteddi.settings import Positive, Section, Settings, load_experiment
from fedteddi.studies.claims import Claim, Faster, FewestRounds, First, Share
from fedteddi.studies.findings import Result
from fedteddi.studies.outcomes import Outcomes

BASELINE = "baseline"


class Level(Section):
    """One value of a factor, called τ = 5 by people and `tau-5` in folders and files."""

    label: str
    changes: dict[str, Any] = Field(default={})  # of the settings; none: the baseline
    only: list[str] = Field(default=[])  # the rules to be run, where not all of the factor's are


class Factor(Section):
    """Something that is varied alone."""

    name: str  # in commands and folders
    symbol: str  # in tables and figures
    title: str
    levels: Annotated[list[Level], Field(min_length=2)]
    quick_levels: list[Level] = Field(default=[])  # those of the quick study, where they differ
    schedulers: list[str] = Field(default=[])  # the rules that it concerns; none named: all
    note: str = ""  # {first} and {last} stand for the labels of these levels

    def key(self, level: Level) -> str:
        """Return the name of a level's folder and file."""
        return f"{self.name}-{level.label}" if level.changes else BASELINE

    def named(self, level: Level) -> str:
        """Return what people call a level."""
        return f"{self.symbol} = {level.label}"


class Reading(Section):
    """A rule that the study's claims are about, where there are several, and the baselines it is compared with."""

    ours: str
    than: Annotated[list[str], Field(min_length=1)]
    title: str

    @field_validator("ours", "than")
    @classmethod
    def _as_runs_are_called(cls, rules: str | list[str]) -> str | list[str]:
        return named_rule(rules).name if isinstance(rules, str) else [named_rule(rule).name for rule in rules]


class StudyPlan(Section):
    """Which runs a study consists of, and what is claimed about them."""

    name: str  # of its folders and its page
    argument: str = ""  # of the command that plays it: its name, or its file
    title: str
    experiment: str
    changes: dict[str, Any] = Field(default={})  # of the experiment's settings
    options: dict[str, Any] = Field(default={})  # for every rule that has them
    ours: str = "fedteddi"  # the rule that the others are compared with
    readings: list[Reading] = Field(
        default=[]
    )  # where there are several such rules; the first one's is the page's
    schedulers: Annotated[list[str], Field(min_length=2)]
    bounds: list[Literal["everyone", "centralised"]] = Field(
        default=[]
    )  # played beside; no claim is about them
    figures: dict[str, list[str]] = Field(
        default={}
    )  # rules to be drawn together, where not all are; by a name
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    deadlines_s: Annotated[list[Positive], Field(min_length=1)]
    targets: dict[Accuracy, list[Share]]
    claims: Annotated[list[Claim], Field(min_length=1)]
    factors: list[Factor] = Field(default=[])
    quick: dict[str, Any] = Field(default={})  # settings that --quick changes
    notes: str = ""  # what a reader must know to understand the claims
    is_quick: bool = False

    @field_validator("ours")
    @classmethod
    def _as_its_runs_are_called(cls, rule: str) -> str:
        return named_rule(rule).name

    @model_validator(mode="after")
    def _belongs_together(self) -> "StudyPlan":
        rules = [self.ours] if not self.readings else []
        rules += [rule for factor in self.factors for rule in self.concerned(factor)]
        rules += [rule for reading in self.readings for rule in (reading.ours, *reading.than)]
        for reading in self.each_reading():
            for claim in self.claims:
                rules += [claim.ours] if claim.ours else []
                than = self._in(reading, claim).than
                rules += [than] if isinstance(than, str) else than
        drawn = [rule for rules in self.figures.values() for rule in rules if rule not in REFERENCES]
        for rule in [*rules, *(named_rule(rule).name for rule in drawn)]:
            if rule not in self.rule_names:
                hint = nearest_hint(rule, self.rule_names)
                raise ValueError(f"{shown(rule)} is not among the study's schedulers{hint}: add it there")
        if set(self.targets) != set(ACCURACIES):
            raise ValueError(f"targets={{...}}: give some for each of {' and '.join(ACCURACIES)}")
        if self.factors and len(self.deadlines_s) > 1:
            raise ValueError("a study with factors has one deadline")
        if self.factors and (self.bounds or self.figures):
            raise ValueError(
                "a study with factors plays no bounds and has a figure of its own: leave them out"
            )
        for factor in self.factors:
            for levels in (factor.levels, factor.quick_levels or factor.levels):
                if sum(not level.changes for level in levels) != 1:
                    raise ValueError(f"factor {factor.name}: one level, the baseline's, has no changes")
        return self

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The rules as their runs are called."""
        return tuple(named_rule(rule).name for rule in self.schedulers)

    @property
    def settings(self) -> Settings:
        """The complete settings of its runs, but for rule, seed, deadline and level."""
        return self.whole_settings.changed(**flat(self.quick if self.is_quick else {}))

    @property
    def whole_settings(self) -> Settings:
        """The settings of the study as it was meant, not shortened."""
        return load_experiment(self.experiment).changed(**flat(self.changes))

    def quickened(self) -> "StudyPlan":
        """Return the study that tries everything once, in minutes."""
        factors = [f.model_copy(update={"levels": f.quick_levels or f.levels}) for f in self.factors]
        return self.model_copy(update={"seeds": self.seeds[:1], "factors": factors, "is_quick": True})

    @property
    def leading(self) -> str:
        """The rule that the page is about first."""
        return self.each_reading()[0].ours

    @property
    def cell_rule(self) -> str | None:
        """The rule that is compared with all others cell by cell: one that is said to need the fewest rounds."""
        return next((c.ours or self.leading for c in self.claims if isinstance(c, FewestRounds)), None)

    def each_reading(self) -> list[Reading]:
        """Return the readings; without any, the study's rule against all others."""
        return self.readings or [Reading(ours=self.ours, than=self._others(self.ours), title="")]

    def outcomes(self, study: Study) -> Outcomes:
        """Return what runs of this study came to."""
        first = self.each_reading()[0]
        return Outcomes(study, first.ours, first.than, self.deadlines_s, self.targets)

    def results(self, found: Outcomes) -> list[Result]:
        """Hold every claim against the outcomes: reading by reading, then those about a rule of their own."""
        results: list[Result] = []
        for reading in self.each_reading():
            about = found.about(reading.ours, reading.than)
            for claim in (claim for claim in self.claims if not claim.ours):
                results += self._in(reading, claim).evaluate(about)
        for claim in (claim for claim in self.claims if claim.ours):
            results += claim.evaluate(found.about(claim.ours, self._others(claim.ours)))
        return results

    def without_options(self, text: str) -> str:
        """Return a text in which every rule is called as it is without its options."""
        found = (named_rule(rule) for rule in self.schedulers)
        for rule in sorted((one for one in found if one.options), key=lambda one: -len(one.name)):
            text = text.replace(rule.name, rule.scheduler)
        return text

    def _others(self, ours: str) -> list[str]:
        return [rule for rule in self.rule_names if rule != ours]

    def _in(self, reading: Reading, claim: Claim) -> Claim:
        """Return a claim with the reading's baselines in place of the same rules with other options."""
        if claim.ours:
            return claim
        schedulers = {named_rule(rule).name: named_rule(rule).scheduler for rule in self.schedulers}
        instead = {schedulers.get(rule): rule for rule in reading.than}
        than = [claim.than] if isinstance(claim.than, str) else claim.than
        own = [rule if rule in reading.than else instead.get(rule, rule) for rule in than]
        return claim.model_copy(update={"than": own[0] if isinstance(claim.than, str) else own})

    def concerned(self, factor: Factor) -> list[str]:
        """Return the rules that a factor concerns."""
        return [named_rule(rule).name for rule in factor.schedulers] or [*self.rule_names]

    def varied(self) -> Iterator[tuple[Factor, Level]]:
        """Yield every level but the baseline's."""
        for factor in self.factors:
            yield from ((factor, level) for level in factor.levels if level.changes)

    @property
    def levels(self) -> dict[str, Level]:
        """Every level by its folder, the baseline first, each with all rules that are run there."""
        found = {BASELINE: Level(label=BASELINE, only=[*self.rule_names])}
        for factor, level in self.varied():
            found[factor.key(level)] = level.model_copy(update={"only": level.only or self.concerned(factor)})
        return found

    @property
    def level_names(self) -> dict[str, str]:
        """What people call every level, by its folder, the baseline first."""
        named = {factor.key(level): factor.named(level) for factor, level in self.varied()}
        return {BASELINE: "the baseline"} | named


def study_names() -> list[str]:
    """Return the built-in studies."""
    found = [file.name for file in files("fedteddi.studies").iterdir() if file.name.endswith(".toml")]
    return sorted(name.removesuffix(".toml") for name in found)


def load_study(name: str) -> StudyPlan:
    """Load a study: a TOML file, or the name of a built-in one."""
    own = Path(name).stem if name.endswith(".toml") else name
    try:
        return StudyPlan.model_validate({"name": own, "argument": name} | _read(name))
    except ValidationError as error:
        raise InputError(f"{own}.toml: {_sentence(error)}") from None


def known(what: str, names: Iterable[str], all_known: Iterable[str]) -> list[str]:
    """Return the names, all there are if none is given; refuse one that is not known."""
    every = list(all_known)
    for name in (given := list(dict.fromkeys(names))):
        if name not in every:
            hint = nearest_hint(name, every)
            raise InputError(f"no {what} is called {shown(name)}{hint}: known are {', '.join(every)}")
    return given or every


def flat(changes: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings as `Settings.changed` takes them: section__key."""
    found: dict[str, Any] = {}
    for key, value in changes.items():
        own = f"{prefix}{key}"
        found |= flat(value, f"{own}__") if isinstance(value, dict) else {own: value}
    return found


def _read(name: str) -> dict[str, Any]:
    """Read a study's TOML; what it leaves out is as in the study it is like."""
    try:
        if name.endswith(".toml"):
            text = Path(name).read_text(encoding="utf-8")
        else:
            (own,) = known("study", [name], study_names())
            text = files("fedteddi.studies").joinpath(f"{own}.toml").read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (OSError, ValueError) as error:  # among them what is no text, or no TOML
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} cannot be read as a study ({error}): give a TOML file") from None
    like = data.pop("like", None)
    return _read(str(like)) | data if like is not None else data


def _sentence(error: ValidationError) -> str:
    """Return the first thing wrong as one sentence; an unknown key explains why another is missing."""
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    place = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        keys = {key for part in (StudyPlan, Factor, Level, Faster, First) for key in part.model_fields}
        return f"unknown key {shown(place)}{nearest_hint(str(first['loc'][-1]), keys)}"
    if first["type"] == "missing":
        return f"{place} is missing: give it"
    message = first["msg"].removeprefix("Value error, ")
    return f"{place}={shown(first['input'])}: {message[0].lower()}{message[1:]}" if place else message
