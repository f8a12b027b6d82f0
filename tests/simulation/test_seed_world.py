"""What runs of one seed share: made once, the same for every scheduler, kept no longer than its round."""

import gc
import weakref

import numpy as np

from fedteddi.randomness import RoundDraws
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.simulation.seed_world import SeedWorld
from small_world import tiny_data, tiny_settings


def test_a_draw_is_made_once_in_its_round() -> None:
    draws, made = RoundDraws(), []

    def draw() -> int:
        made.append(1)
        return len(made)

    assert [draws.once(0, 1, "batch", draw) for _ in range(3)] == [1, 1, 1]
    assert draws.once(0, 1, "other", draw) == 2
    assert draws.once(0, 2, "batch", draw) == 3
    assert draws.once(1, 1, "batch", draw) == 4


def test_only_the_rounds_that_go_on_are_kept_and_what_belongs_to_their_frame() -> None:
    draws = RoundDraws()
    rounds = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)]
    for frame, number in rounds:
        draws.once(frame, number, "draw", lambda: "old")
    draws.keep_only([(0, 2)])
    assert [draws.once(*where, "draw", lambda: "new") for where in rounds] == [
        "old",
        "new",
        "old",
        "new",
        "new",
    ]


def test_runs_of_a_seed_share_a_world_and_other_seeds_have_their_own() -> None:
    settings = tiny_settings()
    laboratory = Laboratory(settings, tiny_data())
    first = laboratory.new_run(settings)
    second = laboratory.new_run(settings.changed(scheduler="random"))
    other = laboratory.new_run(settings.changed(seed=1))
    assert second.plan is first.plan
    assert second.environment is first.environment
    assert second.clients.batches(0, 1, 2)[0] is first.clients.batches(0, 1, 2)[0]
    assert not np.array_equal(other.clients.batches(0, 1, 2)[0], first.clients.batches(0, 1, 2)[0])


def test_runs_of_a_seed_with_other_batches_draw_their_own() -> None:
    settings = tiny_settings()
    world = SeedWorld(0, tiny_data())
    plan = world.plan(settings)
    smaller = settings.changed(training__batch_size=settings.training.batch_size - 1).training
    sizes = [world.batches(plan, 0, 1, 0, training)[0].shape[1] for training in (settings.training, smaller)]
    counted = [world.batch_counts(plan, 0, 1, (0,), how).sum() for how in (settings.training, smaller)]
    assert sizes == [settings.training.batch_size, settings.training.batch_size - 1]
    assert counted == [size * settings.training.local_steps for size in sizes]


def test_a_round_forgets_the_draws_of_the_one_before() -> None:
    settings = tiny_settings()
    laboratory = Laboratory(settings, tiny_data())
    run = laboratory.new_run(settings)
    laboratory.advance([run])  # enters the frame
    laboratory.advance([run])
    batch = weakref.ref(run.clients.batches(0, 1, 0)[0])
    gain = weakref.ref(run.environment.channel_gain(0, 1))
    gc.collect()
    assert batch() is not None
    laboratory.advance([run])
    gc.collect()
    assert batch() is None
    assert gain() is None
