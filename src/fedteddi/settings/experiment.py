"""One experiment as validated data. Every key has a default; unknown ones are refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from fedteddi.errors import InputError, nearest_hint, shown
from fedteddi.registry import known_kind, may_be_part, name_of, named_part, read_value
from fedteddi.settings.estimates import EstimateSettings, EvaluationSettings
from fedteddi.settings.key import Section, key
from fedteddi.settings.radio import RadioSettings
from fedteddi.settings.scenario import Arrival, ScenarioSettings
from fedteddi.settings.server import FleetSettings, PrivacySettings, ServerSettings
from fedteddi.settings.training import TrainingSettings


class Settings(Section):
    """One experiment, validated: every key, its range and its default are in docs/settings.md."""

    name: str = key("fashion", "The experiment's name; a run takes that of its scheduler.")
    dataset: str = key(
        "fashion-mnist", "The images and labels.", paper="CIFAR-10 and CIFAR-100", named="datasets"
    )
    scheduler: str = key(
        "fedteddi", "The rule that decides who uploads in a round.", paper="fedteddi", named="schedulers"
    )
    scheduler_options: dict[str, Any] = key({}, 'Options of that rule, such as search = "refined".')
    seed: Annotated[int, Field(ge=0, lt=2**62)] = key(
        0, "Decides every draw: data, positions, channels, delays, batches, the rule's own chance."
    )
    rounds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = key(
        [0, 60],
        "K of every frame; 0 in frame 0: a pre-trained model stands for it.",
        unit="rounds",
        paper='open; docs/paper.md, "The paper\'s setting", takes [0, 2000] (CIFAR-10)',
    )
    scenario: ScenarioSettings = ScenarioSettings()
    training: TrainingSettings = TrainingSettings()
    radio: RadioSettings = RadioSettings()
    estimates: EstimateSettings = EstimateSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    server: ServerSettings = ServerSettings()
    privacy: PrivacySettings = PrivacySettings()
    fleet: FleetSettings = FleetSettings()

    @classmethod
    def load(cls, experiment: str | Path) -> "Settings":
        """Load an experiment: a .toml file, or a name of `fedteddi list experiments`."""
        from fedteddi.settings.experiments import load_experiment

        return load_experiment(experiment)

    def changed(self, **changes: Any) -> "Settings":
        """Return a copy with some keys replaced; a double underscore leads into a section: `radio__deadline_s=1.2`.

        Where a key names a part, its class, an instance or a function will do.
        """
        data = self.model_dump()
        named: dict[str, Any] = {}
        for name, value in changes.items():
            named |= _named(name, value, changes) if may_be_part(value) else {}
        for name, value in (changes | named).items():
            _put(data, name.split("__"), value.item() if isinstance(value, np.generic) else value)
        return parse_settings(data)


def parse_settings(data: dict[str, Any]) -> Settings:
    """Check plain data; the first thing wrong with it becomes one sentence."""
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        raise InputError(_sentence(error)) from None


def on_fleet(settings: Settings) -> Settings:
    """Return the settings as a fleet plays them: what [server] and [estimates] leave at their defaults is [fleet]'s."""
    server, fleet, usual = settings.server, settings.fleet, ServerSettings()
    shared = [part for part in ServerSettings.model_fields if part in FleetSettings.model_fields]
    left = [part for part in shared if getattr(server, part) == getattr(usual, part)]
    own = {f"server__{part}": getattr(fleet, part) for part in left}
    if settings.estimates.class_gradients == "full":
        own["estimates__class_gradients"] = fleet.class_gradients
    return settings.changed(**own)


def override(settings: Settings, words: list[str]) -> Settings:
    """Apply `key=value` words, such as `radio.deadline_s=1.2`; values are read as TOML, or else as text."""
    changes: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InputError(f"--set {word!r}: write it as key=value, such as radio.deadline_s=1.2")
        changes[name.strip().replace(".", "__")] = read_value(value)
    return settings.changed(**changes)


def _named(key: str, given: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that stand for a part given as an object: its name, and its options unless others are said.

    Nothing, if the key does not name a part.
    """
    *path, last = key.split("__")
    section: Any = Settings
    for step in path:
        section = getattr(section.model_fields.get(step), "annotation", None)
        if not (isinstance(section, type) and issubclass(section, Section)):
            return {}
    extra = getattr(section.model_fields.get(last), "json_schema_extra", None)
    kind = extra.get("named") if isinstance(extra, dict) else ""
    if not kind:
        return {}
    if f"{last}_options" not in section.model_fields:
        return {key: name_of(given, known_kind(str(kind)))}
    name, options = named_part(given, str(kind))
    own, found = {}, {}
    for option, value in (options or {}).items():
        if option in section.model_fields:  # as [radio] has some of its channels' options
            found["__".join([*path, option])] = value
        else:
            own[option] = value
    if options is not None:
        found[f"{key}_options"] = own
    return {key: name} | {one: value for one, value in found.items() if one not in changes}


def _put(data: dict[str, Any], path: list[str], value: Any) -> None:
    for step in path[:-1]:
        inner = data.get(step)
        if not isinstance(inner, dict):
            raise InputError(f"there is no section {shown(step)}{nearest_hint(step, data)} in the settings")
        data = inner
    data[path[-1]] = value


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    key_path = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        section: Any = Settings
        for step in first["loc"][:-1]:
            section = section.model_fields[step].annotation if isinstance(step, str) else Arrival
            section = Arrival if section == list[Arrival] else section
        return f"unknown key {shown(key_path)}{nearest_hint(str(first['loc'][-1]), section.model_fields)}"
    message = first["msg"].removeprefix("Value error, ")
    return f"{key_path}={shown(first['input'])}: {message[0].lower()}{message[1:]}" if key_path else message
