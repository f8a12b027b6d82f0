"""The paper's CIFAR-10 layout, counted."""

import numpy as np

from fedteddi.scenario.paper_cifar10 import batch_counts, paper_cifar10_counts


def test_frame_0_is_the_papers() -> None:
    """15 units of 375 for each of classes 0-2, 5 for 3-5, none else; 20 clients hold one class, 10 two."""
    before, _ = paper_cifar10_counts(np.random.default_rng(0))
    assert (before.sum(axis=1) == 750).all()
    assert (before.sum(axis=0) // 375).tolist() == [15, 15, 15, 5, 5, 5, 0, 0, 0, 0]
    assert np.bincount((before > 0).sum(axis=1)).tolist() == [0, 20, 10]


def test_frame_1_brings_new_classes_to_twelve_clients() -> None:
    """375 new of one class, 375 of the old kept; three clients for each new class; 18 unchanged."""
    before, after = paper_cifar10_counts(np.random.default_rng(0))
    changed = (before != after).any(axis=1)
    assert changed.sum() == 12
    assert (after.sum(axis=1) == 750).all()
    assert (after[changed][:, 6:].sum(axis=1) == 375).all()
    assert ((after > 0)[:, 6:].sum(axis=0) == 3).all()
    assert (after[:, :6] <= before[:, :6]).all()


def test_seeds_deal_differently() -> None:
    one, other = (paper_cifar10_counts(np.random.default_rng(seed))[1] for seed in (0, 1))
    assert not np.array_equal(one, other)


def test_batches_hold_what_the_client_holds() -> None:
    """τ·b samples in all, none of a class the client lacks, never more of one in a step than it has."""
    held = np.array([[30, 2, 0], [0, 0, 40]])
    drawn = batch_counts(held, 10, 32, np.random.default_rng(0))
    assert drawn.sum(axis=1).tolist() == [320, 320]
    assert drawn[0].tolist() == [300, 20, 0]
    assert drawn[1].tolist() == [0, 0, 320]
