"""Commands without a simulation: decide one round, print an example, list and check schedulers."""

import json
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedteddi.cli import parts
from fedteddi.cli.endings import hint_next, say_next
from fedteddi.cli.options import RuleOptions, SchedulerName, complete_scheduler, rule_with
from fedteddi.cli.output import (
    print_answer,
    print_bibtex,
    print_schedulers,
    say,
    stdout_to_stderr,
)
from fedteddi.errors import InputError
from fedteddi.protocol.example import example_round
from fedteddi.protocol.round_json.answer import answer_round
from fedteddi.protocol.round_json.reports import read_round, reports_schema, write_round
from fedteddi.registry import read_named, read_options
from fedteddi.schedulers.laws import check_scheduler
from fedteddi.schedulers.memory import State, as_json, from_json
from fedteddi.schedulers.registry import find_scheduler, make_scheduler, scheduler_names
from fedteddi.schedulers.schedule import (
    AnyScheduler,
    checked_choice,
    checked_first_state,
    remembers,
    unlimited,
)
from fedteddi.wireless.radio import Radio

# Far beyond any real round (a million clients take about 1 GB), small enough not to exhaust the machine.
MAX_INPUT_BYTES = 2 * 1024**3


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(schedulers)
    app.command()(example)
    app.command()(schedule)
    app.command()(check)


def schedulers(
    cite: Annotated[bool, typer.Option("--cite", help="Print the BibTeX of all rules instead.")] = False,
) -> None:
    """List the scheduling rules, what they need, their options, and where they come from."""
    found = {}
    for name in scheduler_names():
        try:
            found[name] = find_scheduler(name)
        except InputError as error:  # somebody's package is broken; ours still works
            say("warning", str(error))
    if cite:
        print_bibtex(found.values())
    else:
        print_schedulers(found)
        say_next("fedteddi compare --scheduler NAME --scheduler NAME, or fedteddi run --scheduler NAME")


def example(
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another round.")] = 0,
    round: Annotated[int, typer.Option(min=1, help="Which round of the frame.")] = 1,
    rounds_in_frame: Annotated[int, typer.Option(min=1, help="How many rounds the frame has.")] = 300,
    deadline: Annotated[float, typer.Option(help="Seconds until every upload must be done.")] = 1.0,
) -> None:
    """Print an example round as JSON: the paper's 30 CIFAR-10 clients, 12 of which just met new classes."""
    view = example_round(seed, round=round, rounds_in_frame=rounds_in_frame, deadline_s=deadline)
    print(write_round(view, Radio(), with_needed_hz=False), end="")
    hint_next("fedteddi example | fedteddi schedule - decides it")


Reports = Annotated[
    str | None,
    typer.Argument(help="A JSON file with one round's reports; - reads standard input.", show_default=False),
]
StateFile = Annotated[
    Path | None,
    typer.Option(
        "--state", help="What a rule with memory carries on: read if the file exists, then written."
    ),
]


def schedule(
    reports: Reports = None,
    scheduler: SchedulerName = "fedteddi",
    option: RuleOptions = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the rule's random choices.")] = 0,
    state_file: StateFile = None,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of the reports and exit.")
    ] = False,
) -> None:
    """Decide one round: who uploads, and with how much bandwidth.

    Try it: fedteddi example | fedteddi schedule -
    """
    if schema:
        print(reports_schema(), end="")
        return
    round = read_round(_read(reports))
    rule = _made(scheduler or "fedteddi", option)
    if unlimited(rule):
        raise InputError(f"{rule.name} is a reference bound without band or deadline: run it with compare")
    with stdout_to_stderr():
        state = _read_state(rule, state_file, int(round.view.client_id.max()) + 1)
        chosen, state = checked_choice(rule, round.view, np.random.default_rng(seed), state)
    if state_file is not None:
        from fedteddi.results.folder import write_atomically

        write_atomically(state_file, json.dumps(as_json(state)).encode())
    elif remembers(rule):
        say(
            "warning",
            f"{rule.name} remembers earlier rounds, and begins anew here: keep its state with --state FILE",
        )
    answer = answer_round(round, rule, chosen, seed)
    for warning in answer.warnings:
        say("warning", warning)
    if json_wanted:
        print(json.dumps(answer.as_json(), indent=2, allow_nan=False, default=str))
    else:
        print_answer(round.view, answer)
        say_next("--scheduler NAME for another rule; --json for programs")


def check(
    scheduler: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A scheduler by name, or your own part as file.py:Class; also with options, as name\\[key=value].",
            autocompletion=complete_scheduler,
        ),
    ],
    kind: Annotated[str, typer.Option(help=f"What it is: {', '.join(parts.CHECKED)}.")] = parts.SCHEDULER,
    option: RuleOptions = None,
    rounds: Annotated[int, typer.Option(min=1, help="How many random rounds to try.")] = 40,
    save: Annotated[
        Path | None, typer.Option(help="Write the round on which the first law broke to this JSON file.")
    ] = None,
) -> None:
    """Check a scheduler, or another part, against the required invariants; exit code 1 if it breaks one."""
    if kind != parts.SCHEDULER:
        name, options = read_named(scheduler, "rule")
        options |= read_options(option or [], "--option")
        raise typer.Exit(parts.check_part(name, kind, options))
    rule = _made(scheduler, option)
    with stdout_to_stderr():
        broken = check_scheduler(rule, rounds)
    parts.print_laws(rule.name, broken, rounds)
    if not broken:
        say_next(parts.USED[parts.SCHEDULER].format(scheduler))
        return
    if save is not None:
        save.write_text(write_round(broken[0].view), encoding="utf-8")
        say_next(f"fedteddi schedule {save} --scheduler {scheduler}")
    else:
        say_next("--save FILE keeps the round on which it broke first, for fedteddi schedule FILE")
    raise typer.Exit(1)


def _made(given: str, words: list[str] | None) -> AnyScheduler:
    """Make a rule with the options in its brackets and those of --option."""
    rule = rule_with(given, words)
    return make_scheduler(rule.scheduler, **rule.options)


def _read_state(rule: AnyScheduler, file: Path | None, num_clients: int) -> State:
    if file is not None and not remembers(rule):
        raise InputError(f"{rule.name} has no memory: leave --state out")
    if file is None or not file.exists():
        return checked_first_state(rule, num_clients)
    try:
        return from_json(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"--state {file} cannot be used ({error}): give what an earlier call wrote there"
        ) from None


def _read(reports: str | None) -> str:
    if reports is None:
        raise InputError(
            "REPORTS is missing: give a JSON file, or - for standard input; 'fedteddi example' makes one"
        )
    if reports == "-" and sys.stdin is None:
        raise InputError("standard input is closed: give a JSON file")
    try:
        with sys.stdin.buffer if reports == "-" else Path(reports).open("rb") as file:
            content = file.read(MAX_INPUT_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"{reports} cannot be read ({error.strerror}): give a JSON file, or - for standard input"
        ) from None
    if len(content) > MAX_INPUT_BYTES:
        raise InputError(f"{reports} is larger than 2 GiB: that is not one round's reports")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{reports} is not UTF-8 text: give a JSON file") from None
