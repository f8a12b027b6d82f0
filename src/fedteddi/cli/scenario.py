"""The command that shows who holds what, before anything is trained."""

from pathlib import Path
from typing import Annotated

import typer

from fedteddi.cli.data import DataDir
from fedteddi.cli.endings import say_next
from fedteddi.cli.options import Changes, Experiment, Seed, settings_from
from fedteddi.cli.output import out
from fedteddi.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(scenario)


def scenario(
    experiment: Experiment = "fashion",
    seed: Seed = None,
    out_file: Annotated[Path, typer.Option("--out", help="Where the picture goes (.png and .svg).")] = Path(
        "scenario.png"
    ),
    changes: Changes = None,
    data_dir: DataDir = None,
) -> None:
    """Print and draw who holds which classes in every frame, before anything is trained."""
    import numpy as np

    from fedteddi.cli.tables import plan_sentence, print_plan
    from fedteddi.learning.datasets.dataset import load_dataset
    from fedteddi.results.drawing import save
    from fedteddi.results.figures import scenario_heat_map
    from fedteddi.scenario.build import build_plan

    settings = settings_from(experiment, None, changes)
    settings = settings if seed is None else settings.changed(seed=seed)
    data = load_dataset(settings.dataset, data_dir)
    plan = build_plan(
        settings.scenario, data.train_labels.numpy(), data.num_classes, len(settings.rounds), settings.seed
    )
    out.print(f"{experiment}, seed {settings.seed}: {plan_sentence(plan)}\n")
    print_plan(plan)
    counts = np.stack([frame.counts for frame in plan.frames])
    title = f"Who holds what: {Path(experiment).stem}, {settings.dataset}, seed {settings.seed}"
    try:
        files_written = save(scenario_heat_map(counts, title), out_file)
    except OSError as error:
        raise InputError(f"{out_file} cannot be written ({error.strerror}): choose another --out") from None
    out.print(f"drawn in {files_written[0]}", soft_wrap=True)
    say_next(f"fedteddi run {experiment}, or fedteddi compare {experiment}")
