"""The settings in plain words: what arrives where, how clients train, what the radio allows."""

from typing import Any

from fedteddi.results.page.conditions import Condition
from fedteddi.results.runs import REFERENCES
from fedteddi.settings import Settings, write_settings
from fedteddi.settings.keys import all_keys, toml_value
from fedteddi.settings.scenario import Arrival

DATASETS = {"fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
LAYOUTS = {
    "paper-cifar10": "in the paper's CIFAR-10 layout: classes 0–2 three times as common as 3–5, then 12 clients meet"
    " one of classes 6–9 each",
    "paper-cifar100": "in the paper's CIFAR-100 layout: a class or two for each client, then ten new classes a frame",
}
# What a reader finds in the sentences or on the page; the table of changed settings leaves it out.
TOLD = ("name", "dataset", "scheduler", "scheduler_options", "seed", "rounds", "scenario.arrivals")


def settings_in_words(condition: Condition) -> dict[str, Any]:
    """Return paragraphs (title, text), the settings that are not the defaults, and all of them as TOML."""
    settings = condition.settings
    return {
        "paragraphs": [
            ["Data", _data(settings)],
            ["Frames", " ".join(_frames(settings))],
            ["Clients train", _training(settings)],
            ["Radio", _radio(settings, shares_band=_shares_band(condition))],
            ["Schedulers", _schedulers(condition)],
        ],
        "changed": changed_keys(settings),
        "toml": write_settings(settings),
    }


def changed_keys(settings: Settings) -> list[list[str]]:
    """Return the settings that differ from the defaults: path, value, unit and meaning."""
    found, defaults = [], Settings().model_dump()
    own = settings.model_dump()
    for key in all_keys():
        section, _, name = key.path.rpartition(".")
        if key.path in TOLD or key.path.startswith("scenario.arrivals."):
            continue
        value = (own[section] if section else own).get(name)
        if value != (defaults[section] if section else defaults).get(name) and value is not None:
            found.append([key.path, toml_value(value), key.unit, key.meaning])
    return found


def _data(settings: Settings) -> str:
    scenario = settings.scenario
    layout = LAYOUTS.get(scenario.layout)
    if scenario.layout == "dirichlet":
        layout = f"with class mixes from a Dirichlet distribution (α = {scenario.alpha:g})"
    elif layout is None:
        layout = f"of {scenario.classes_per_client} classes each"
    name = DATASETS.get(settings.dataset, settings.dataset)
    return (
        f"{name}, {scenario.clients} clients that hold {scenario.samples_per_client} images each, {layout}. When"
        f" storage is full a client keeps all that is new and a part of the old (replay: {scenario.replay})."
    )


def _frames(settings: Settings) -> list[str]:
    found = []
    for frame, rounds in enumerate(settings.rounds):
        length = f"{rounds} rounds" if rounds else "no rounds"
        if not rounds and frame == 0:
            epochs = settings.training.pretrain_epochs
            length = f"no rounds; the model is pre-trained for {epochs} epochs" if epochs else "no rounds"
        arrivals = [_arrival(one) for one in settings.scenario.arrivals if one.frame == frame]
        found.append(f"Frame {frame}: {length}{'; ' if arrivals else ''}{', '.join(arrivals)}.")
    return found


def _arrival(one: Arrival) -> str:
    who = (
        f"{one.clients} clients get"
        if isinstance(one.clients, int)
        else f"clients {_listed(one.clients)} get"
    )
    what = f"in the class mix {_listed(one.mix or [], ':')}"
    if one.classes is not None:
        classes = sorted(set(one.classes))
        what = f"of class {classes[0]}" if len(classes) == 1 else f"of one of the classes {_listed(classes)}"
    lost = f" and lose class {_listed(one.forget)}" if one.forget else ""
    return f"{who} {one.samples} new images each {what}{lost}"


def _training(settings: Settings) -> str:
    training = settings.training
    rule = "" if training.local_training == "sgd" else f" by {training.local_training}"
    return (
        f"{training.model}, {training.local_steps} local steps{rule} on batches of {training.batch_size} images a"
        f" round; learning rate {training.learning_rate:g}, times {training.decay:g} after each round; momentum"
        f" {training.momentum:g}. The server combines the uploads by {settings.server.aggregation}."
    )


def _radio(settings: Settings, *, shares_band: bool) -> str:
    radio = settings.radio
    channel = "trace" if radio.gain_trace else radio.channel
    fades = f" of {radio.shadowing_std_db:g} dB" if channel == "shadowing" else ""
    least = "" if shares_band else " Each client gets the least bandwidth that meets the deadline."
    downlink = f" The broadcast takes a band of {radio.downlink_hz / 1e6:g} MHz." if radio.downlink_hz else ""
    return (
        f"Uploads share {radio.total_hz / 1e6:g} MHz and must be done {radio.deadline_s:g} s after the round begins;"
        f" {radio.power_dbm:g} dBm; channel {channel}{fades} in a cell of {radio.radius_m:g} m radius.{least}{downlink}"
    )


def _shares_band(condition: Condition) -> bool:
    return any(run.settings.scheduler_options.get("spare_band") == "share" for run in condition.runs)


def _schedulers(condition: Condition) -> str:
    words = []
    for name, runs in condition.groups.items():
        options = ", ".join(
            f"{key} = {toml_value(value)}" for key, value in runs[0].settings.scheduler_options.items()
        )
        bound = " (a bound, without band and deadline)" if name in REFERENCES else ""
        words.append(f"{name}{f' ({options})' if options else ''}{bound}")
    seeds = f"seed{'s' if len(condition.seeds) > 1 else ''} {_listed(condition.seeds)}"
    return f"{', '.join(words)}; {seeds}. All see the same data, channels, delays and batches."


def _listed(numbers: Any, between: str = ", ") -> str:
    """Write numbers with commas, runs of them as 0–4."""
    values = list(numbers)
    if (
        between == ", "
        and len(values) > 2
        and all(isinstance(n, int) for n in values)
        and values == list(range(values[0], values[0] + len(values)))
    ):
        return f"{values[0]}–{values[-1]}"
    return between.join(f"{value:g}" for value in values)
