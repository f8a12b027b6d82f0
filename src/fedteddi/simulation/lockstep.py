"""Many runs in lock-step: each plays one round, and what they ask at the same time is answered together."""

from fedteddi.errors import DivergedError, InputError
from fedteddi.learning.flat import FlatModel
from fedteddi.protocol.messages import Answers, Request
from fedteddi.protocol.server import server_round
from fedteddi.protocol.state import RoundFacts
from fedteddi.protocol.traffic import Round, counting
from fedteddi.schedulers.rules.fedteddi import FedTeddi
from fedteddi.simulation.in_process import Exchange
from fedteddi.simulation.run import Run

P3 = FedTeddi()  # evaluates the sets of rules without an objective of their own
Outcome = RoundFacts | InputError  # why the run ends here


def play_rounds(
    runs: list[Run], runtime: Exchange, model: FlatModel, keep_going: bool = False
) -> list[Outcome]:
    """Play one round of every run; one that diverges does not keep the others from going on.

    With `keep_going`, neither does one whose scheduler, or another part of its own, fails.
    """
    ends: type[InputError] = InputError if keep_going else DivergedError
    for world in {run.clients.world for run in runs}:
        world.begin((run.state.frame, run.state.round + 1) for run in runs if run.clients.world is world)
    rounds = [_round(run, model) for run in runs]
    outcomes: dict[int, Outcome] = {}
    try:
        asking = {index: next(one) for index, one in enumerate(rounds)}
        while asking:
            answers = runtime.exchange([(runs[index].clients, request) for index, request in asking.items()])
            answered = dict(zip(asking, answers, strict=True))
            asking = {}
            for index, answer in answered.items():
                found = _send(rounds[index], answer, ends)
                if isinstance(found, Request):
                    asking[index] = found
                else:
                    outcomes[index] = found
    finally:  # a round that did not come to its end puts its run's state back
        for one in rounds:
            one.close()
    return [outcomes[index] for index in range(len(runs))]


def _round(run: Run, model: FlatModel) -> Round:
    head_size = model.head.stop - model.head.start
    return counting(
        server_round(
            run.state, run.settings, run.rule, run.aggregation, run.environment, model.bits, head_size, P3
        )
    )


def _send(one: Round, answer: Answers, ends: type[InputError]) -> Request | Outcome:
    """Return what a round asks next, or how it ended; errors that end a run are an outcome."""
    try:
        return one.send(answer)
    except StopIteration as stop:
        facts: RoundFacts = stop.value
        return facts
    except ends as error:
        return error
