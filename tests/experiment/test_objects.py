"""Experiments by name or file; parts given as classes, instances and functions, also in a session without files."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedteddi import InputError, RunOptions, Schedule, Settings, compare, fill_band, simulate
from fedteddi.aggregation import Received
from fedteddi.settings import load_experiment, write_settings
from small_world import tiny_data, tiny_model, tiny_settings

SHORT = {"rounds": [2, 2, 0]}


class Steady:
    def gains(self, positions_m: np.ndarray, draws: Any) -> np.ndarray:
        return steady(positions_m, draws)


def steady(positions_m: np.ndarray, draws: Any) -> np.ndarray:  # noqa: ARG001
    return np.linspace(1e-12, 1e-10, len(positions_m))


class Median:
    def aggregate(self, received: Received) -> Tensor:
        return median(received)


def median(received: Received) -> Tensor:
    return torch.stack(received.uploads).median(dim=0).values


class Clipped:
    def direction(self, gradient: Tensor, weights: Tensor, start: Tensor) -> Tensor:
        return clipped(gradient, weights, start)


def clipped(gradient: Tensor, weights: Tensor, start: Tensor) -> Tensor:  # noqa: ARG001
    return gradient.clamp(-0.01, 0.01)


class InTurn:
    name = "in-turn"

    def select(self, view: Any, rng: np.random.Generator) -> Schedule:
        return in_turn(view, rng)


def in_turn(view: Any, rng: np.random.Generator) -> Schedule:  # noqa: ARG001
    return fill_band(view, view.schedulable)


def records(**changes: Any) -> Any:
    return simulate(tiny_settings(**SHORT), data=tiny_data(), **changes).records


@pytest.mark.parametrize(
    ("key", "part", "function"),
    [
        ("scheduler", InTurn, in_turn),
        ("radio__channel", Steady, steady),
        ("server__aggregation", Median, median),
        ("training__local_training", Clipped, clipped),
    ],
)
def test_a_class_an_instance_and_a_function_are_the_same_part(key: str, part: Any, function: Any) -> None:
    by_class = records(**{key: part})
    assert by_class != records()
    assert records(**{key: part()}) == by_class
    assert records(**{key: function}) == by_class
    # One that nobody can import, and that differs from the function by its name only.
    assert records(**{key: lambda *given: function(*given)}) == by_class


def test_functions_are_checked_as_classes_are() -> None:
    calls: list[int] = []

    def counting(positions_m: np.ndarray, draws: Any) -> np.ndarray:
        calls.append(1)
        return steady(positions_m, draws) * len(calls)

    with pytest.raises(
        InputError, match=r"radio\.channel=python:counting\S* gave other gains after other rounds"
    ):
        records(radio__channel=counting)
    with pytest.raises(InputError, match=r"training\.local_training=\S*:halved returned .* of shape"):
        records(training__local_training=halved)
    with pytest.raises(InputError, match=":Wrong is not a channel: it must be a class with gains"):
        records(radio__channel=Wrong())
    with pytest.raises(InputError, match=r"has no option 'k': it has none"):
        records(radio__channel=steady, radio__channel_options={"k": 1})


def halved(gradient: Tensor, weights: Tensor, start: Tensor) -> Tensor:  # noqa: ARG001
    return gradient[: len(gradient) // 2]


class Wrong:
    def __init__(self) -> None:
        self.parameters = [1]


class Unasked(nn.Module):
    """Takes no arguments, as most people's networks."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.body = nn.Linear(64, width)
        self.head = nn.Linear(width, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(torch.tanh(self.body(images.flatten(1))))


def test_a_model_may_be_a_class_without_arguments_or_a_module_with_its_weights() -> None:
    settings = tiny_settings(rounds=[0, 0, 1])
    by_class = simulate(settings, data=tiny_data(), training__model=Unasked)
    torch.manual_seed(settings.seed)
    module = Unasked()
    before = [p.detach().clone() for p in module.parameters()]
    by_module = simulate(settings, data=tiny_data(), training__model=module)
    assert by_module.records == by_class.records  # a class draws its weights from the seed
    assert all(torch.equal(p, was) for p, was in zip(module.parameters(), before, strict=True))
    other = simulate(settings, data=tiny_data(), training__model=module, seed=1)
    start = next(r for r in other.records if r.frame == 0)
    assert start.class_accuracy == by_module.records[0].class_accuracy  # its weights, whatever the seed
    assert simulate(settings, data=tiny_data(), training__model=Unasked(32)).records != by_module.records


def test_experiments_are_settings_names_or_files(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(write_settings(tiny_settings(**SHORT)))
    assert Settings.load("evolving") == load_experiment("evolving")
    assert Settings.load(file) == Settings.load(str(file)) == tiny_settings(**SHORT)
    assert (
        simulate(str(file), data=tiny_data()).records == simulate(file, data=tiny_data()).records == records()
    )
    study = compare(file, schedulers=["random"], seeds=[0], data=tiny_data())
    assert study.runs[0].records == records(scheduler="random")
    with pytest.raises(InputError, match=r"no experiment is called 'evolvin' \(did you mean 'evolving'"):
        simulate("evolvin")
    with pytest.raises(InputError, match=r"my\.toml'\?\): give a \.toml file"):
        simulate(tmp_path / "mz.toml")
    with pytest.raises(InputError, match=r"evolving\.toml cannot be read .*did you mean 'evolving'"):
        compare("evolving.toml", schedulers=["random"])


def test_a_rule_may_be_named_with_options_in_simulate_too() -> None:
    one = simulate(
        tiny_settings(**SHORT), scheduler="fedteddi[search=refined,on_no_fit=skip]", data=tiny_data()
    )
    other = simulate(
        tiny_settings(**SHORT), scheduler_options={"search": "refined", "on_no_fit": "skip"}, data=tiny_data()
    )
    assert one.scheduler == "fedteddi-search-refined-on_no_fit-skip"
    assert one.settings.scheduler_options == other.settings.scheduler_options
    assert one.records == other.records


SESSION = """
import numpy as np, torch
from torch import nn
from fedteddi import compare, fill_band, simulate
from small_world import tiny_data, tiny_settings

class Rule:
    name = "of-a-cell"
    needs = frozenset()
    def __init__(self, most=3):
        self.most = most
    def select(self, view, rng):
        return fill_band(view, rng.permutation(view.schedulable)[: self.most])

class Channel:
    def gains(self, positions_m, draws):
        return 1e-11 * draws.redrawn().exponential(size=len(positions_m))

def newest(held, classes, keep, rng):
    return held[len(held) - keep :]

class Net(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.body, self.head = nn.Linear(64, 16), nn.Linear(16, classes)
    def forward(self, images):
        return self.head(torch.relu(self.body(images.flatten(1))))

how = dict(
    scheduler=Rule(most=2), radio__channel=Channel(), scenario__replay=newest, training__model=Net,
    server__aggregation=lambda received: torch.stack(received.uploads).mean(dim=0),
    training__local_training=lambda gradient, weights, start: gradient.clamp(-0.05, 0.05), data=tiny_data(),
)

def accuracy(run):
    return [r.balanced for r in run.records if r.is_evaluated]

"""
WHOLE = """
print("file", "__file__" in globals())
whole = simulate(tiny_settings(), **how)
print("whole", accuracy(whole), type(whole.model()).__name__)
stopped = simulate(tiny_settings(), out="run", time_limit_s=0.0, **how)
print("finished", stopped.finished)
how["scheduler"] = "random"
both = compare(tiny_settings(), schedulers=[Rule, Rule(most=1), "random"], seeds=[0, 1], **how)
print("compared", [(run.scheduler, run.finished) for run in both.runs])
"""
RESUMED = """
resumed = simulate(tiny_settings(), out="run", resume=True, **how)
print("resumed", accuracy(resumed), type(resumed.model()).__name__)
"""


CHANGING = """
import torch
from torch import nn
from fedteddi import InputError, fill_band, simulate
from small_world import tiny_data, tiny_settings

class Rule:
    name = "of-a-cell"
    def __init__(self, most):
        self._most = most
    def select(self, view, rng):
        return fill_band(view, view.schedulable[: self._most])

def play(most, seed, **how):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    try:
        run = simulate(tiny_settings(), scheduler=Rule(most), training__model=net, data=tiny_data(), out="run", **how)
        return len(run.records)
    except InputError as error:
        return error

"""


def session(text: str, folder: Path) -> dict[str, str]:
    """What an interpreter that reads cells from a pipe prints, by first words; there is no file to find code in."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")])
    cells = f"exec({text!r})\n"
    done = subprocess.run(
        [sys.executable, "-i", "-q", "-c", ""],
        input=cells,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "FEDTEDDI_CACHE": str(folder)},
        check=False,
        timeout=300,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_parts_of_a_session_without_files_run_in_lock_step_and_resume_in_another(tmp_path: Path) -> None:
    first = session(SESSION + WHOLE, tmp_path)
    assert first["file"] == "False"
    assert first["whole"].endswith(" Net")
    assert first["finished"] == "False"
    names = [f"({name!r}, True)" for name in ("of-a-cell", "of-a-cell-most-1", "random") for _ in (0, 1)]
    assert first["compared"] == f"[{', '.join(names)}]"
    second = session(SESSION + RESUMED, tmp_path)
    assert second["resumed"] == first["whole"]


def test_other_objects_under_the_same_names_do_not_resume(tmp_path: Path) -> None:
    """Typed into an interpreter, code has no source: what was compiled, and what an object holds, is compared."""
    assert session(CHANGING + 'print("rounds", play(2, 0, time_limit_s=0.0))', tmp_path) == {"rounds": "0"}
    other = 'print("most", play(3, 0, resume=True))\nprint("weights", play(2, 1, resume=True))\n'
    said = session(CHANGING + other + 'print("same", play(2, 0, resume=True))', tmp_path)
    assert said["most"].startswith("run was started with other settings (scheduler was 'python:of-a-cell@")
    assert said["weights"].startswith(
        "run was started with other settings (training.model was 'python:Sequential@"
    )
    assert int(said["same"]) == 14  # two, five and four rounds, and three frames' first models
    (tmp_path / "run").rename(tmp_path / "whole")
    session(CHANGING + "play(2, 0, time_limit_s=0.0)", tmp_path)
    edited = CHANGING.replace("view.schedulable[:", "view.schedulable[1:][:")
    said = session(edited + 'print("code", play(2, 0, resume=True))', tmp_path)
    assert "has changed since run was written: restore it" in said["code"]


def test_what_another_process_cannot_find_is_said_in_one_sentence(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tiny_settings(rounds=[1, 0, 0], training__model=lambda *given: tiny_model(*given))
    monkeypatch.setattr("fedteddi.given._GIVEN", {})
    (tmp_path / "my.toml").write_text(write_settings(settings))
    done = cli(
        "run", tmp_path / "my.toml", "--set", "dataset=small_world:tiny_data", "--out", tmp_path / "run"
    )
    assert done.code == 2
    name = settings.training.model
    assert done.err == (
        f"error: {name!r} is an object of the Python process that started the run: pass it there again, or put it into"
        " a file and name it as file.py:Name\n"
    )


def test_run_options_take_data_in_any_form() -> None:
    data = tiny_data()
    arrays = tuple(
        getattr(data, part).numpy() for part in ("train_images", "train_labels", "test_images", "test_labels")
    )
    run = simulate(tiny_settings(**SHORT), run=RunOptions(data=arrays))
    assert run.records == records()
    assert run.settings.dataset == "given"
