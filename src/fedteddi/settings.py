"""One experiment as validated data: TOML in, TOML out. Every key has a default; unknown ones are refused."""

import re
import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from fedteddi.errors import InputError, nearest_hint, shown
from fedteddi.registry import Kind, find, is_part, must, name_of, read_value

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


def _all_or_count(value: Any) -> Any:
    if value == "all" or (type(value) is int and value >= 1):
        return value
    raise ValueError('give "all", or how many: a whole number, at least 1')


AllOrCount = Annotated[Literal["all"] | int, BeforeValidator(_all_or_count)]
# Numbers that tomli-w gives a line each; it escapes the line ends in texts.
LONG_LIST = re.compile(r"\[\n(?: *[-+.\w]+,\n)+ *\]")


class Section(BaseModel):
    """A part of the settings: frozen, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Arrival(Section):
    """New data at the start of one frame: who gets it, which classes, how many samples."""

    frame: Count
    clients: Annotated[int, Field(ge=1)] | list[int] = 12  # how many, drawn at random, or which
    classes: list[int] | None = None  # one of them for each client, in turn
    mix: list[NotNegative] | None = None  # or class weights that every one of them follows
    samples: Count = 60
    forget: list[int] = []  # classes the same clients lose

    @model_validator(mode="after")
    def _one_of_two(self) -> "Arrival":
        if (self.classes is None) == (self.mix is None):
            raise ValueError(
                "give either classes (one for each client) or mix (class weights for all of them)"
            )
        return self


class ScenarioSettings(Section):
    """Which data lies where in frame 0, and what arrives later."""

    layout: Literal["paper-cifar10", "paper-cifar100", "classes", "dirichlet"] = "paper-cifar10"
    clients: Count = 30
    samples_per_client: Count = 120  # in frame 0, and the storage limit afterwards
    classes_per_client: Count = 2
    alpha: Positive = 0.5
    class_weights: list[NotNegative] = [3, 3, 3, 1, 1, 1]
    arrivals: list[Arrival] = []
    arrivals_trace: str = ""  # CSV with frame, client, class, samples
    replay: str = "random"
    overlap: bool = True
    pooled: bool = False  # one client in place of all, with everything they hold


class TrainingSettings(Section):
    """Local training, and the pre-training that stands for frame 0."""

    model: str = "small-cnn"
    local_training: str = "sgd"  # sgd, fedprox, or your own as file.py:Class
    local_training_options: dict[str, Any] = {}
    local_steps: Count = 10
    batch_size: Annotated[int, Field(ge=2)] = 32
    learning_rate: Positive = 0.01
    decay: Annotated[float, Field(gt=0, le=1)] = 0.9992
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.5
    augment: Literal["flip", "crop-flip", "none"] = "none"
    head: Literal["all", "expanding"] = "all"  # all outputs at once, or with the classes (docs/paper.md D10)
    precision: Literal["float32", "tf32", "bf16"] = "float32"  # of products on a GPU; a CPU does float32
    pretrain_data: Literal["classes", "held"] = "classes"  # all images of frame 0's classes, or the clients'
    pretrain_epochs: Annotated[int, Field(ge=0)] = 10
    pretrain_learning_rate: Positive = 0.02
    pretrain_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    pretrain_weight_decay: NotNegative = 5e-4
    pretrain_batch_size: Count = 128


class RadioSettings(Section):
    """The cell, the uplink and the clients' speed."""

    total_hz: Positive = 2e6
    deadline_s: Positive = 1.0
    power_dbm: Annotated[float, Field(ge=-300, le=300)] = 23.0
    noise_dbm_per_hz: Annotated[float, Field(ge=-300, le=300)] = -174.0
    radius_m: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 250.0
    shadowing_std_db: NotNegative = 8.0
    shadowing: Literal["redrawn", "static"] = "redrawn"
    downlink_hz: NotNegative = 0.0  # of the server's broadcast (docs/metrics.md); 0: it takes no time
    downlink_power_dbm: Annotated[float, Field(ge=-300, le=300)] = 46.0  # of the server
    channel: str = "shadowing"  # what `fedteddi list channels` knows, or your own as file.py:Class
    channel_options: dict[str, Any] = {}
    seconds_per_sample: NotNegative = 0.5e-3
    samples_per_second: Positive = 2000.0
    compute_power_w: NotNegative = 1.0  # for the energy column only
    gain_trace: str = ""  # CSV with frame, round, client, value; implies channel = "trace"
    compute_trace: str = ""


class EstimateSettings(Section):
    """How σ and L^(c) are estimated (docs/paper.md D5 to D7)."""

    class_norm: Literal["paper", "exact"] = "paper"
    class_norm_every: Count = 1
    class_gradient_samples: Count = 64
    class_norm_layers: Literal["all", "head"] = "all"
    class_gradients: Literal["full", "sketch"] = "full"  # what clients send for it
    first_class_norm: Literal["estimated", "ones"] = "estimated"
    gradient_std: Literal["variance", "std"] = "variance"
    gradient_std_clients: AllOrCount = "all"  # how many clients, drawn every round, measure it
    power_of_choice_loss: Literal["first-batch", "local-steps"] = "first-batch"


class EvaluationSettings(Section):
    """How often and on what models are evaluated, and what is recorded."""

    every: Count = 5
    loss_samples: Count = 2000
    loss_in_last_frame: bool = False
    test_images: Annotated[int, Field(ge=0)] = 0  # how many of them evaluate a model; 0 = all
    trace: bool = False  # record how each set came about


class ServerSettings(Section):
    """What the server does with uploads, and how far it trusts what clients say (docs/metrics.md)."""

    aggregation: str = "fedavg"  # fedavg, fedavgm, target-weights, or your own as file.py:Class
    aggregation_options: dict[str, Any] = {}
    max_sample_share: Annotated[float, Field(gt=0, le=1)] = 1.0  # of one client in any average; 1 = no bound


class PrivacySettings(Section):
    """Noise on the class histograms that clients release, one a frame (docs/privacy.md)."""

    epsilon: Annotated[float, Field(ge=0, le=1e6)] = 0.0  # of one release; 0 = off, true histograms are sent

    @model_validator(mode="after")
    def _noise_of_a_size(self) -> "PrivacySettings":
        if 0 < self.epsilon < 1e-6:
            raise ValueError(
                f"epsilon={self.epsilon:g} is too small to be useful: use 0 (off) or at least 1e-6"
            )
        return self


class FleetSettings(Section):
    """How long a real fleet may take, by the clock on the wall (docs/deploy.md); radio.deadline_s is modelled."""

    wait_s: Positive = 60.0  # for all clients to connect, before the first round
    report_s: Positive = 120.0  # for local training and reports
    upload_s: Positive = 60.0
    class_gradients_s: Positive = 60.0
    compute_s: Literal["measured", "modelled"] = "measured"  # the computation times that the radio model uses


class Settings(Section):
    """One experiment."""

    name: str = "fashion"
    dataset: str = "fashion-mnist"
    scheduler: str = "fedteddi"
    scheduler_options: dict[str, Any] = {}
    seed: Annotated[int, Field(ge=0, lt=2**62)] = 0
    rounds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = [0, 60]  # K_l, frame by frame
    scenario: ScenarioSettings = ScenarioSettings()
    training: TrainingSettings = TrainingSettings()
    radio: RadioSettings = RadioSettings()
    estimates: EstimateSettings = EstimateSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    server: ServerSettings = ServerSettings()
    privacy: PrivacySettings = PrivacySettings()
    fleet: FleetSettings = FleetSettings()

    def changed(self, **changes: Any) -> "Settings":
        """Return a copy with some keys replaced; a double underscore leads into a section: `radio__deadline_s=1.2`."""
        data = self.model_dump()
        for key, value in changes.items():
            _put(data, key.split("__"), name_of(value) if is_part(value) else value)
        return parse_settings(data)


def parse_settings(data: dict[str, Any]) -> Settings:
    """Check plain data; the first thing wrong with it becomes one sentence."""
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        raise InputError(_sentence(error)) from None


def read_settings(text: str, where: str) -> Settings:
    """Read settings from TOML text."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{where} is not valid TOML ({error})") from None
    try:
        return parse_settings(data)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def write_settings(settings: Settings) -> str:
    """Write complete settings as TOML; reading them gives the same settings."""
    try:
        text = tomli_w.dumps(settings.model_dump(exclude_none=True))
    except TypeError as error:
        raise InputError(
            f"the settings cannot be written ({error}): give plain numbers, texts and lists"
        ) from None
    return LONG_LIST.sub(
        lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(", ]", "]"), text
    )


def override(settings: Settings, words: list[str]) -> Settings:
    """Apply `key=value` words, such as `radio.deadline_s=1.2`; values are read as TOML, or else as text."""
    changes: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InputError(f"--set {word!r}: write it as key=value, such as radio.deadline_s=1.2")
        changes[key.strip().replace(".", "__")] = read_value(value)
    return settings.changed(**changes)


def _built_in_experiments() -> dict[str, Traversable]:
    found = files("fedteddi").joinpath("experiments").iterdir()
    files_found = {file.name: file for file in found if file.name.endswith(".toml")}
    return {name.removesuffix(".toml"): files_found[name] for name in sorted(files_found)}


def _about_experiment(given: Any) -> str:
    if isinstance(given, Settings):
        return f"the experiment {given.name}"
    return str(given.read_text(encoding="utf-8").partition("\n")[0].lstrip("# "))


EXPERIMENTS = Kind(
    name="experiments",
    one="experiment",
    built_in=_built_in_experiments,
    your_own="give a .toml file",
    check=must(
        lambda given: isinstance(given, Settings | Traversable),
        "is no experiment: it must be fedteddi.Settings, or the path of a .toml file",
    ),
    describe=_about_experiment,
)


def load_experiment(name: str) -> Settings:
    """Load an experiment: a TOML file, or one that has a name."""
    path = Path(name) if name.endswith(".toml") else find(EXPERIMENTS, name).value
    if isinstance(path, Settings):
        return path
    try:
        return read_settings(path.read_text(encoding="utf-8"), path.name)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): give a .toml file") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text: give a .toml file") from None


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
        key = str(first["loc"][-1])
        return f"unknown key {shown(key_path)}{nearest_hint(key, section.model_fields)}"
    message = first["msg"].removeprefix("Value error, ")
    return f"{key_path}={shown(first['input'])}: {message[0].lower()}{message[1:]}" if key_path else message
