"""The command that takes a run's model along. Torch is imported only when it is used."""

from pathlib import Path
from typing import Annotated

import typer

from fedteddi.cli.output import out
from fedteddi.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(export)


def export(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    file: Annotated[Path, typer.Argument(help="Where to write: a .pt, .safetensors or .onnx file.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="The model that was trained, as file.py:Name, if its name on record says nothing here."
        ),
    ] = None,
) -> None:
    """Write a run's trained model as a file for PyTorch, safetensors or ONNX."""
    from fedteddi.results.reading import read_run
    from fedteddi.results.trained import weights_of

    if not (run / "settings.toml").is_file():
        runs = sorted(found.parent.name for found in run.glob("*/settings.toml"))
        which = f"name one of its runs, such as {run / runs[0]}" if runs else "give a run's folder"
        raise InputError(f"{run} is not a run's folder: {which}")
    record = read_run(run)
    record.export(file, model)
    if not record.finished:
        out.print(f"{record.title} is not finished: this is its last checkpoint", soft_wrap=True)
    weights = weights_of(record)
    shape = ", ".join(map(str, weights.inputs.shape))
    out.print(
        f"{file}: {record.settings.training.model} of {record.title}, {len(weights.vector):,} parameters, from inputs"
        f" [n, {shape}] to scores [n, {record.counts.shape[2]}]",
        soft_wrap=True,
    )
