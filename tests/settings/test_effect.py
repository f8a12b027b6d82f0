"""A setting that no run uses is named; one that is said to have no effect has none."""

import warnings
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import fedteddi
from cli_runner import Outcome
from fedteddi.errors import NoEffectWarning
from fedteddi.experiment import on_device, play, variant
from fedteddi.protocol.server import needs_of
from fedteddi.schedulers.registry import make_scheduler, scheduler_names
from fedteddi.settings import EXPERIMENTS, Settings, load_experiment, write_settings
from fedteddi.settings.effect import USED_ONLY, Player, without_effect
from fedteddi.studies.play import grid_settings
from fedteddi.studies.study import load_study
from small_world import tiny_data, tiny_settings

STUDIES = sorted(
    file.name.removesuffix(".toml")
    for file in files("fedteddi").joinpath("studies").iterdir()
    if file.name.endswith(".toml")
)
PATHS = sorted({path for paths, _, _ in USED_ONLY for path in paths})
# Under which settings a key is unused (nothing to change: the tiny world itself, with Random), and another value.
UNUSED: dict[str, tuple[dict[str, Any], Any]] = {
    "scenario.classes_per_client": ({"scenario__layout": "dirichlet"}, 3),
    "scenario.alpha": ({}, 7.0),
    "scenario.class_weights": ({"scenario__layout": "paper-cifar10"}, [1, 2]),
    "scenario.replay": ({"scenario__arrivals": []}, "balanced"),
    "training.pretrain_data": ({}, "held"),
    "training.pretrain_learning_rate": ({}, 0.5),
    "training.pretrain_momentum": ({}, 0.1),
    "training.pretrain_weight_decay": ({}, 0.1),
    "training.pretrain_batch_size": ({}, 7),
    "radio.radius_m": ({"radio__gain_trace": "trace.csv"}, 900.0),
    "radio.seconds_per_sample": ({"radio__compute_trace": "trace.csv"}, 0.1),
    "radio.samples_per_second": ({"radio__compute_trace": "trace.csv"}, 2.0),
    "estimates.class_norm": ({}, "exact"),
    "estimates.class_norm_every": ({}, 2),
    "estimates.class_gradient_samples": ({}, 3),
    "estimates.class_norm_layers": ({}, "head"),
    "estimates.class_gradients": ({}, "sketch"),
    "estimates.first_class_norm": ({}, "ones"),
    "estimates.gradient_std": ({}, "std"),
    "estimates.gradient_std_clients": ({"scheduler": "fedteddi"}, 6),
    "estimates.power_of_choice_loss": ({}, "local-steps"),
    "evaluation.loss_samples": ({"rounds": [2], "scenario__arrivals": []}, 10),
    "fleet.wait_s": ({}, 3.0),
    "fleet.report_s": ({}, 3.0),
    "fleet.upload_s": ({}, 3.0),
    "fleet.class_gradients_s": ({}, 3.0),
    "fleet.compute_s": ({}, "modelled"),
    "fleet.class_gradients": ({}, "full"),
    "fleet.uplink": ({}, "measured"),
    "fleet.pace": ({}, True),
    "fleet.data": ({}, "scenario"),
    "fleet.frames": ({}, "detected"),
    "fleet.frame_s": ({}, 5.0),
    "fleet.changed_clients": ({}, 0.5),
    "fleet.changed_mix": ({}, 0.5),
    "fleet.aggregation": ({}, "median"),
    "fleet.max_sample_share": ({}, 0.5),
    "fleet.quarantine_rounds": ({}, 3),
    "fleet.claim_factor": ({}, 5.0),
}


def unused(settings: Settings) -> list[str]:
    rule = make_scheduler(settings.scheduler, **settings.scheduler_options)
    return without_effect([Player(settings, needs_of(rule))])


def changed(settings: Settings, path: str, value: Any) -> Settings:
    return settings.changed(**{path.replace(".", "__"): value})


def world(**changes: Any) -> Settings:
    settings = tiny_settings(**{"scheduler": "random", "rounds": [2, 2, 1], **changes})
    if settings.scenario.layout == "paper-cifar10":
        settings = settings.changed(
            scenario__clients=30, scenario__arrivals=[], training__model="small_world:tiny_model"
        )
    return settings.changed(estimates__class_gradient_samples=64)


def test_every_key_with_a_condition_is_tried() -> None:
    assert sorted(UNUSED) == PATHS


@pytest.mark.parametrize("path", PATHS)
def test_what_is_said_to_have_no_effect_has_none(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs that differ in such a key have the same records, to the bit."""
    monkeypatch.chdir(tmp_path)
    rows = (f"{frame},{k},{n},{0.01 * (n + 1)}" for frame in range(3) for k in (1, 2) for n in range(6))
    Path("trace.csv").write_text("\n".join(["frame,round,client,value", *rows]))
    changes, value = UNUSED[path]
    before = world(**changes)
    after = changed(before, path, value)
    (sentence,) = [sentence for sentence in unused(after) if sentence.startswith(f"{path}=")]
    assert "has no effect here: it is used only" in sentence
    data = tiny_data(classes=10, size=10) if before.scenario.layout == "paper-cifar10" else tiny_data()
    runs = [fedteddi.simulate(settings, data=data) for settings in (before, after)]
    assert runs[0].records == runs[1].records


@pytest.mark.parametrize(
    ("path", "value", "changes"),
    [
        ("scenario.classes_per_client", 3, {}),
        ("scenario.alpha", 7.0, {"scenario__layout": "dirichlet"}),
        ("scenario.class_weights", [1, 2], {"scenario__layout": "dirichlet"}),
        ("scenario.replay", "balanced", {}),
        ("training.pretrain_batch_size", 7, {"training__pretrain_epochs": 1}),
        ("estimates.class_norm", "exact", {"scheduler": "fedcgd"}),
        ("estimates.gradient_std_clients", 3, {"scheduler": "fedteddi"}),
        ("estimates.power_of_choice_loss", "local-steps", {"scheduler": "power-of-choice"}),
        ("evaluation.loss_samples", 10, {"rounds": [1], "evaluation__loss_in_last_frame": True}),
        ("radio.radius_m", 900.0, {}),
        ("radio.shadowing_std_db", 3.0, {}),
    ],
)
def test_what_is_used_is_not_named(path: str, value: Any, changes: dict[str, Any]) -> None:
    sentences = unused(changed(world(**changes), path, value))
    assert [sentence for sentence in sentences if sentence.startswith(f"{path}=")] == []


def test_a_key_counts_if_one_of_the_runs_uses_it() -> None:
    base = Settings().changed(estimates__class_norm="exact")
    of = {name: Player(base, needs_of(make_scheduler(name))) for name in ("random", "fedteddi")}
    assert without_effect([of["random"], of["fedteddi"]]) == []
    (sentence,) = without_effect([of["random"]])
    assert sentence == (
        "estimates.class_norm='exact' has no effect here: it is used only by schedulers that need L^(c), such as"
        " fedteddi and fedcgd"
    )


def test_a_fleet_uses_its_section() -> None:
    settings = Settings().changed(fleet__wait_s=3.0)
    assert without_effect([Player(settings, frozenset(), on_fleet=True)]) == []
    assert len(without_effect([Player(settings, frozenset())])) == 1


# One frame needs no F_l; the committed leaderboard was played with the line, so it goes when that is played again.
NAMED_STILL = {
    "benchmark-static": [
        "evaluation.loss_samples=500 has no effect here: it is used only with more than one frame, or"
        " evaluation.loss_in_last_frame"
    ]
}


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_built_in_experiments_use_all_they_set(name: str) -> None:
    for rule in [*scheduler_names(), "everyone"]:
        settings = load_experiment(name).changed(scheduler=rule, scheduler_options={})
        assert unused(settings) == NAMED_STILL.get(name, [])


@pytest.mark.parametrize("name", STUDIES)
def test_built_in_studies_use_all_they_set(name: str) -> None:
    """Of a study with factors, what shares a device is played together, and asked about together."""
    plan = load_study(name)
    if plan.factors:
        groups: dict[str, list[Settings]] = {}
        for settings in grid_settings(plan).values():
            groups.setdefault(repr(on_device(settings)), []).append(settings)
    else:
        rules = [*plan.schedulers, *plan.bounds]
        groups = {rule: [variant(plan.settings, rule, 0, plan.deadlines_s[0])] for rule in rules}
    for group in groups.values():
        players = [
            Player(one, needs_of(make_scheduler(one.scheduler, **one.scheduler_options))) for one in group
        ]
        assert without_effect(players) == []


@pytest.mark.filterwarnings("error")
def test_python_warns_where_it_was_called() -> None:
    settings = world(rounds=[1], scenario__arrivals=[], evaluation__loss_samples=2000)
    with pytest.warns(NoEffectWarning, match=r"^scenario\.alpha=0\.1 has no effect here") as warned:
        fedteddi.simulate(settings, data=tiny_data(), scenario__alpha=0.1)
    assert [Path(one.filename).name for one in warned] == [Path(__file__).name]
    play({"one": settings.changed(scenario__alpha=0.1)}, data=tiny_data())
    with pytest.warns(NoEffectWarning):
        play({"one": settings.changed(scenario__alpha=0.1)}, data=tiny_data(), name_unused=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fedteddi.simulate(settings, data=tiny_data())
        fedteddi.compare(settings, schedulers=["random"], seeds=[0], data=tiny_data(), scenario__layout="dirichlet",
                         scenario__alpha=0.1)  # fmt: skip
    assert issubclass(NoEffectWarning, UserWarning)


def test_the_command_line_warns_in_a_line_and_goes_on(
    cli: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(
        write_settings(Settings().changed(rounds=[1], training__pretrain_epochs=0, scenario__alpha=0.1))
    )
    done = cli("run", "mine.toml", "--scheduler", "random", "--set", "training.pretrain_momentum=0.8")
    assert done.code == 0
    assert [line for line in done.err.splitlines() if line.startswith("warning:")] == [
        "warning: scenario.alpha=0.1 has no effect here: it is used only with scenario.layout = dirichlet",
        "warning: training.pretrain_momentum=0.8 has no effect here: it is used only with training.pretrain_epochs"
        " above 0",
    ]
