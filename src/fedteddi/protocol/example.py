"""An example round: the paper's CIFAR-10 study, early in frame 1, without any training."""

import numpy as np

from fedteddi.errors import check_number
from fedteddi.heterogeneity.mixes import class_mix
from fedteddi.randomness import keyed_rng
from fedteddi.scenario.paper_cifar10 import batch_counts, paper_cifar10_counts
from fedteddi.schedulers.view import RoundView
from fedteddi.wireless.cell import positions_of
from fedteddi.wireless.channels import Draws, Shadowing
from fedteddi.wireless.computation import computation_delay_s
from fedteddi.wireless.radio import Radio

# The paper's CNN: 259,282 parameters of 32 bits (docs/paper.md). τ = 10 steps of b = 32.
MODEL_BITS = 259_282 * 32.0
LOCAL_STEPS, BATCH_SIZE = 10, 32
SKETCH_SIZE = 16  # shorter than in a run, so that the example can be read
TOTAL_HZ = 20e6


def example_round(
    seed: int = 0, *, round: int = 1, rounds_in_frame: int = 300, deadline_s: float = 1.0
) -> RoundView:
    """Return round k of frame 1 with the paper's clients, cell and delays.

    What only training could tell is drawn from ranges seen in training with the first reading: σ in 26-30,
    class norms in 2-11, and a loss and an update norm that grow with the share of new classes. Sketches of updates are
    sums of a random direction for each class.
    """
    check_number("deadline_s", deadline_s, above=0)
    before, after = paper_cifar10_counts(keyed_rng(seed, "arrival"))
    clients = len(after)
    gain = Shadowing().gains(positions_of(seed, clients), Draws(seed, 1, round))
    compute_s = computation_delay_s(
        clients, LOCAL_STEPS * BATCH_SIZE, keyed_rng(seed, "delay", frame=1, round=round)
    )
    batches = batch_counts(after, LOCAL_STEPS, BATCH_SIZE, keyed_rng(seed, "batches", frame=1, round=round))
    directions = keyed_rng(seed, "sketch").normal(0, SKETCH_SIZE**-0.5, size=(after.shape[1], SKETCH_SIZE))
    guess = keyed_rng(seed, "estimates", frame=1, round=round)
    new_share = np.abs(class_mix(after) - class_mix(before)).sum(axis=1) / 2  # [N]
    return RoundView(
        frame=1,
        round=round,
        rounds_in_frame=rounds_in_frame,
        batch_size=BATCH_SIZE,
        total_hz=TOTAL_HZ,
        num_samples=after.sum(axis=1),
        batch_mix=class_mix(batches),
        data_mix=class_mix(after),
        previous_data_mix=class_mix(before),
        needed_hz=Radio().needed_hz(gain, compute_s, deadline_s=deadline_s, model_bits=MODEL_BITS),
        channel_gain=gain,
        times_scheduled=np.zeros(clients, dtype=np.int64),
        gradient_std=float(guess.uniform(26, 30)),
        class_norm=guess.uniform(2, 11, size=(after.shape[1],)),
        loss=0.5 + 4.0 * new_share + guess.uniform(0, 0.5, size=clients),
        update_norm=0.3 + new_share + guess.uniform(0, 0.1, size=clients),
        update_sketch=np.round(class_mix(after) @ directions, 3),  # [N,C] @ [C,S] -> [N,S]
        compute_s=compute_s,
        deadline_s=deadline_s,
        model_bits=MODEL_BITS,
    )
