"""The paper's CIFAR-100 study, counted: who holds what, how large the model is, how many clients fit the band."""

import numpy as np
import pytest

from fedteddi.learning.flat import FlatModel
from fedteddi.learning.models import make_model
from fedteddi.randomness import keyed_rng
from fedteddi.scenario.build import build_plan
from fedteddi.scenario.paper_cifar100 import paper_cifar100_arrival, paper_cifar100_first
from fedteddi.scenario.plan import Plan
from fedteddi.schedulers.admission import fitting_in_order
from fedteddi.studies.study import load_study
from fedteddi.wireless.environment import Environment

LABELS = np.repeat(np.arange(100), 500)  # CIFAR-100 has 500 training images a class
CIFAR100 = load_study("cifar100")
SETTINGS = CIFAR100.settings


@pytest.fixture(scope="module", params=CIFAR100.seeds)
def plan(request: pytest.FixtureRequest) -> Plan:
    return build_plan(SETTINGS.scenario, LABELS, 100, len(SETTINGS.rounds), request.param)


def test_frame_0_is_the_papers(plan: Plan) -> None:
    """Client i < 10 holds 300 of class i, client 10 + j 200 of class 10 + j and 100 of class j.

    So class 0 has 300 (client 0) + 100 (client 10), class 10 has 200 (client 10) + 100 (client 20), class 20 has 200.
    """
    counts = plan.frames[0].counts
    assert counts.sum(axis=0).tolist() == [400] * 10 + [300] * 10 + [200] * 10 + [0] * 70
    assert (counts.sum(axis=1) == 300).all()
    assert counts[3, 3] == 300
    assert (counts[25, 25], counts[25, 15]) == (200, 100)


def test_nobody_shares_an_image(plan: Plan) -> None:
    for frame in plan.frames:
        held = np.concatenate(frame.held)
        assert len(np.unique(held)) == len(held) == 30 * 300


@pytest.mark.parametrize(("frame", "first"), [(1, 30), (2, 40)])
def test_ten_classes_arrive_at_twelve_clients(plan: Plan, frame: int, first: int) -> None:
    """Every class once and two a second time: 12 · 150 images; they keep 150 of what they had, the others all."""
    before, after = plan.frames[frame - 1], plan.frames[frame]
    new = after.counts[:, first : first + 10]
    assert sorted((new > 0).sum(axis=0)) == [1] * 8 + [2] * 2
    changed = new.sum(axis=1) > 0
    assert changed.sum() == 12
    assert ((new > 0).sum(axis=1) <= 1).all()
    for client in range(30):
        kept = np.isin(after.held[client], before.held[client])
        assert kept.sum() == (150 if changed[client] else 300)
        assert new[client].sum() == (150 if changed[client] else 0)
    assert after.counts[:, first + 10 :].sum() == 0


def test_fewer_samples_keep_the_proportions() -> None:
    """30 a client: a tenth of everything. 16 a client: 16 // 3 = 5 of the older class, 11 of the other, 8 new."""
    assert (paper_cifar100_first(30) * 10 == paper_cifar100_first()).all()
    news = [paper_cifar100_arrival(1, np.random.default_rng(0), samples) for samples in (30, 300)]
    assert (news[0] * 10 == news[1]).all()
    odd = paper_cifar100_first(16)
    assert (odd[0, 0], odd[10, 10], odd[10, 0]) == (16, 11, 5)
    assert set(paper_cifar100_arrival(2, np.random.default_rng(0), 16).ravel()) == {0, 8}


def test_the_model_is_the_papers() -> None:
    """11,220,132 parameters of 32 bits: 359.04 Mbit."""
    model = FlatModel(make_model(SETTINGS.training.model, (3, 32, 32), 100, seed=0))
    assert model.bits == 32 * 11_220_132
    assert model.bits / 1e6 == pytest.approx(359, abs=0.5)


def test_about_nineteen_clients_fit_the_band() -> None:
    """The specification says "about 19" of 20 MHz in random order, so 18.5 to 19.5 before rounding: ± 0.5.

    Clients stay where they are within a seed, so that 100 seeds of 10 rounds are 100 draws. Their means vary by about
    0.9: a standard error of 0.9/√100 = 0.09, three of which are 0.27. Together ± 0.8.
    """
    training, radio = SETTINGS.training, SETTINGS.radio
    counts = []
    for seed in range(100):
        world = Environment.make(radio, seed, 30, training.local_steps * training.batch_size)
        for number in range(1, 11):
            needed_hz = world.radio.needed_hz(
                world.channel_gain(1, number),
                world.compute_s(1, number),
                deadline_s=radio.deadline_s,
                model_bits=32 * 11_220_132,
            )
            order = keyed_rng(seed, "scheduler", round=number).permutation(30)
            counts.append(len(fitting_in_order(order, needed_hz, radio.total_hz, "skip")))
    assert np.mean(counts) == pytest.approx(19, abs=0.8)
