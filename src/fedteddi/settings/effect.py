"""Which keys are used only under a condition: one table, for descriptions and for warnings."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from operator import attrgetter

from fedteddi.errors import shown
from fedteddi.settings.experiment import Settings


@dataclass(frozen=True)
class Player:
    """What decides, beside the settings of a run, which of them are used."""

    settings: Settings
    needs: frozenset[str]  # what its scheduler asks clients for
    on_fleet: bool = False


Used = Callable[[Player], bool]
PRETRAINING = ("data", "learning_rate", "momentum", "weight_decay", "batch_size")
CLASS_NORM = ("class_norm", "class_norm_every", "class_gradient_samples", "class_norm_layers")
FLEET = (
    "wait_s",
    "report_s",
    "upload_s",
    "class_gradients_s",
    "compute_s",
    "class_gradients",
    "uplink",
    "pace",
    "data",
    "frames",
    "aggregation",
    "max_sample_share",
    "quarantine_rounds",
    "claim_factor",
)


def _something_arrives(player: Player) -> bool:
    scenario, frames = player.settings.scenario, len(player.settings.rounds)
    brings_news = scenario.layout.startswith("paper-") or bool(scenario.arrivals or scenario.arrivals_trace)
    return frames > 1 and brings_news


def _fewer_than_all(player: Player) -> bool:
    wanted = player.settings.estimates.gradient_std_clients
    return wanted == "all" or wanted < player.settings.scenario.clients


def _loss_is_measured(player: Player) -> bool:
    return len(player.settings.rounds) > 1 or player.settings.evaluation.loss_in_last_frame


# The keys, under which condition they are used (after "used only"), and that condition. A key may be in several rows.
USED_ONLY: tuple[tuple[tuple[str, ...], str, Used], ...] = (
    (
        ("scenario.classes_per_client",),
        "with scenario.layout = classes",
        lambda player: player.settings.scenario.layout == "classes",
    ),
    (
        ("scenario.alpha",),
        "with scenario.layout = dirichlet",
        lambda player: player.settings.scenario.layout == "dirichlet",
    ),
    (
        ("scenario.class_weights",),
        "with scenario.layout = classes or dirichlet",
        lambda player: player.settings.scenario.layout in ("classes", "dirichlet"),
    ),
    (("scenario.replay",), "where data arrives in a frame after the first", _something_arrives),
    (
        tuple(f"training.pretrain_{part}" for part in PRETRAINING),
        "with training.pretrain_epochs above 0",
        lambda player: player.settings.training.pretrain_epochs > 0,
    ),
    (
        ("radio.radius_m",),
        "without radio.gain_trace, whose gains are measured",
        lambda player: not player.settings.radio.gain_trace,
    ),
    (
        ("radio.seconds_per_sample", "radio.samples_per_second"),
        "without radio.compute_trace, whose times are measured",
        lambda player: not player.settings.radio.compute_trace,
    ),
    (
        tuple(f"estimates.{part}" for part in (*CLASS_NORM, "class_gradients", "first_class_norm")),
        "by schedulers that need L^(c), such as fedteddi and fedcgd",
        lambda player: "class_norm" in player.needs,
    ),
    (
        ("estimates.gradient_std", "estimates.gradient_std_clients"),
        "by schedulers that need σ, such as fedteddi and fedcgd",
        lambda player: "gradient_std" in player.needs,
    ),
    (("estimates.gradient_std_clients",), "where it is below scenario.clients", _fewer_than_all),
    (
        ("estimates.power_of_choice_loss",),
        "by schedulers that need losses, such as power-of-choice",
        lambda player: "loss" in player.needs,
    ),
    (
        ("evaluation.loss_samples",),
        "with more than one frame, or evaluation.loss_in_last_frame",
        _loss_is_measured,
    ),
    (
        ("fleet.frame_s",),
        "on a fleet with fleet.frames = clock",
        lambda player: player.on_fleet and player.settings.fleet.frames == "clock",
    ),
    (
        ("fleet.changed_clients", "fleet.changed_mix"),
        "on a fleet with fleet.frames = detected",
        lambda player: player.on_fleet and player.settings.fleet.frames == "detected",
    ),
    (tuple(f"fleet.{part}" for part in FLEET), "on a fleet (docs/deploy.md)", lambda player: player.on_fleet),
)


def used_only(path: str) -> str:
    """Return under which conditions a key is used, after "used only"; nothing if it always is."""
    return " and only ".join(only for paths, only, _ in USED_ONLY if path in paths)


def without_effect(players: Iterable[Player]) -> list[str]:
    """Name the keys that are set to another value than the default and used by none of these runs, and why."""
    every = list(players)
    sentences: dict[str, str] = {}
    for paths, only, used in USED_ONLY:
        for path in paths:
            setting = [player for player in every if _value(player, path) != _default(path)]
            if setting and not any(map(used, setting)):
                value = shown(_value(setting[0], path))
                sentences.setdefault(path, f"{path}={value} has no effect here: it is used only {only}")
    return list(sentences.values())


def _value(player: Player, path: str) -> object:
    return attrgetter(path)(player.settings)


@cache
def _default(path: str) -> object:
    return attrgetter(path)(Settings())
