"""Try every command and every public name where only the core is installed; print what is not as it should be.

    python tests/core_only.py     # in an environment with nothing but the core (tests/test_install.py)

tests/test_extras.py runs it after hiding the extras' modules. It works in the current folder.
"""

import contextlib
import inspect
import io
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from unittest import mock

import fedteddi
from fedteddi.cli import main
from fedteddi.cli.app import app
from fedteddi.errors import InputError
from fedteddi.extras import MissingExtraError, install_command
from fedteddi.protocol.record import RoundRecord
from fedteddi.results.reading import read_study
from fedteddi.results.runs import Study
from fedteddi.settings import Settings, write_settings

ROUND, RUNS = "round.json", "runs"
# What the core is for.
WORKS = [
    "--version",
    "schedulers",
    "schedulers --cite",
    "example",
    f"schedule {ROUND}",
    f"schedule {ROUND} --json -o search=exact",
    f"schedule {ROUND} --scheduler divfl",
    "schedule --schema",
    "check fedteddi --rounds 5",
    "check fedavg --kind aggregation",
    "check umi --kind channel",
    *(
        f"list {kind}"
        for kind in ("schedulers", "channels", "aggregations", "replays", "datasets", "experiments")
    ),
    "settings",
    "settings radio.deadline_s",
    "settings --schema",
    "settings --markdown",
    "init mine.toml",
    "data list",
    f"watch {RUNS}",
    "list trackers",
]
# What needs more, and the module whose extra is asked for.
LACKS = {
    "run": "torch",
    "compare": "torch",
    "scenario": "torch",
    "benchmark": "torch",
    "reproduce cifar10": "torch",
    "list models": "torch",
    "list local-training": "torch",
    "check sgd --kind local-training": "torch",
    "check sionna --kind channel": "sionna",
    "run --track tensorboard": "torch",
    "data get cifar10 --data-dir data": "pooch",
    f"report {RUNS}": "pandas",
    f"report {RUNS} --html": "matplotlib",
    f"export {RUNS}/fedteddi model.onnx": "torch",
}


def said(words: str) -> tuple[object, str]:
    """Run a command as the shell would; return its exit code, and what it said on stderr in one line."""
    error = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["fedteddi", *words.split()]),
        Path("stdout").open("w", encoding="utf-8") as answer,
        contextlib.redirect_stdout(answer),
        contextlib.redirect_stderr(error),
    ):
        try:
            main()
        except SystemExit as stop:
            return stop.code or 0, " ".join(error.getvalue().split())
    return 0, ""


def faulty_commands() -> Iterator[str]:
    """Yield what is wrong with the commands, and those that nobody tried."""
    for words in WORKS:
        code, error = said(words)
        if code != 0:
            yield f"fedteddi {words}: exit code {code}, {error}"
    for words, module in LACKS.items():
        code, error = said(words)
        if code != 2 or install_command(module) not in error or not error.startswith("error: "):
            yield f"fedteddi {words}: exit code {code}, {error or 'silent'}"
    tried = {words.split()[0] for words in (*WORKS, *LACKS)}
    names = [command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands]
    names += [group.name or "" for group in app.registered_groups]
    yield from (
        f"fedteddi {name}: say in {__file__} what it does without extras" for name in {*names} - tried
    )


def faulty_names() -> Iterator[str]:
    """Yield the public names, and the methods of what was read, that fail otherwise than by naming the extra."""
    for name in fedteddi.__all__:
        try:
            getattr(fedteddi, name)
        except MissingExtraError:
            continue
        except Exception as error:
            yield f"fedteddi.{name}: {type(error).__name__}: {error}"
    study = read_study(Path(RUNS))
    for part in (study, study.runs[0]):
        for name, method in inspect.getmembers(part, inspect.ismethod):
            parameters = list(inspect.signature(method).parameters.values())
            wanted = [1 if p.name == "frame" else 0.5 for p in parameters if p.default is p.empty]
            try:
                method(*wanted)
            except ModuleNotFoundError as error:
                if not isinstance(error, MissingExtraError):
                    yield f"{type(part).__name__}.{name}: {error}"
            except Exception:  # it was asked nonsense: an extra is not what it lacks
                continue


def works_in_python() -> Iterator[str]:
    """Yield what a user of the core in Python would miss."""
    import numpy as np

    view = fedteddi.example_round()
    rule = fedteddi.make_scheduler("fedteddi", search="exact")
    if not rule.select(view, np.random.default_rng(0)).clients:
        yield "nobody is scheduled in the example round"
    lacking = {
        "fedteddi.simulate": (lambda: fedteddi.simulate, "torch"),
        "fedteddi.flower": (lambda: import_module("fedteddi.flower"), "flwr"),
    }
    for name, (attempt, module) in lacking.items():
        try:
            attempt()
        except InputError as error:
            if str(error) != f"{name} needs {module}, which is not installed: {install_command(module)}":
                yield f"{name}: {error}"
        else:
            yield f"{name} was imported without {module}"
    if not isinstance(read_study(Path(RUNS)), Study):
        yield "no study"


def prepare() -> None:
    """Write a round, and a folder with a finished run of one round that reached 70 % on both of its classes."""
    said("example")
    Path("stdout").rename(ROUND)
    folder = Path(RUNS) / "fedteddi"
    folder.mkdir(parents=True)
    settings = Settings().changed(name="fedteddi", rounds=[0, 1])
    (folder / "settings.toml").write_text(write_settings(settings), encoding="utf-8")
    counts = [[[5, 0], [0, 5]], [[5, 0], [0, 5]]]
    (folder / "scenario.json").write_text(json.dumps({"counts": counts}), encoding="utf-8")
    accuracy = {"class_accuracy": [0.7, 0.7], "balanced": 0.7, "global": 0.7}
    played = {"clients": [0], "scheduled_new": 0, "round_s": 1.0, "uplink_bits": 8, "energy_j": 0.1}
    rounds = [
        {"frame": 1, "round": 0},
        {"frame": 1, "round": 1, "gradient_std": None, "objective": None} | played,
    ]
    lines = [json.dumps(RoundRecord.from_json(one | accuracy).as_json()) for one in rounds]
    (folder / "rounds.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    prepare()
    found = [*faulty_commands(), *faulty_names(), *works_in_python()]
    print(*found, sep="\n")
    sys.exit(1 if found else 0)
