"""Hypothesis strategies: rounds that shrink to small, readable counterexamples."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedteddi import RoundView
from fedteddi.wireless.uplink import minimum_bandwidth_hz


def mixes(clients: int, classes: int) -> st.SearchStrategy[np.ndarray]:
    """Class shares from small counts, so that ties and missing classes are common."""
    row = st.lists(st.integers(0, 4), min_size=classes, max_size=classes).filter(any)
    return st.lists(row, min_size=clients, max_size=clients).map(
        lambda rows: np.array(rows, dtype=float) / np.sum(rows, axis=1, keepdims=True)
    )


@st.composite
def rounds(draw: st.DrawFn, max_clients: int = 12, max_classes: int = 5) -> RoundView:
    clients = draw(st.integers(1, max_clients))
    classes = draw(st.integers(1, max_classes))

    def per_client(entries: st.SearchStrategy[Any]) -> np.ndarray:
        return np.array(draw(st.lists(entries, min_size=clients, max_size=clients)))

    frame = draw(st.integers(0, 3))
    rounds_in_frame = draw(st.integers(1, 20))
    deadline_s, model_bits = 1.0, 1e6
    compute_s = per_client(st.sampled_from([0.1, 0.5, 0.9, 1.0, 1.5]))
    # Signals P|H|²/N0 around the rates in play, so that some clients are infeasible and some barely feasible.
    signal = per_client(st.sampled_from([0.0, 1e5, 8e5, 1e6, 3e6, 1e8]))
    data_mix = draw(mixes(clients, classes))
    return RoundView(
        frame=frame,
        round=draw(st.integers(1, rounds_in_frame)),
        rounds_in_frame=rounds_in_frame,
        batch_size=draw(st.integers(1, 64)),
        total_hz=draw(st.sampled_from([1e4, 1e6, 3e6, 1e7])),
        num_samples=per_client(st.sampled_from([1, 10, 10, 750])).astype(int),
        batch_mix=draw(mixes(clients, classes)),
        data_mix=data_mix,
        previous_data_mix=data_mix if frame == 0 else draw(mixes(clients, classes)),
        needed_hz=minimum_bandwidth_hz(model_bits, deadline_s - compute_s, 1.0, signal, 1.0),
        channel_gain=signal,
        times_scheduled=per_client(st.integers(0, 3)).astype(int),
        gradient_std=draw(st.sampled_from([0.0, 1.0, 28.0])),
        class_norm=np.array(
            draw(st.lists(st.sampled_from([0.0, 1.0, 2.5, 9.0]), min_size=classes, max_size=classes))
        ),
        loss=per_client(st.sampled_from([0.1, 1.0, 2.0])),
        update_norm=per_client(st.sampled_from([0.1, 1.0, 2.0])),
        update_sketch=per_client(st.tuples(*[st.sampled_from([-1.0, 0.0, 2.0])] * 2)),
        compute_s=compute_s,
        deadline_s=deadline_s,
        model_bits=model_bits,
    )
