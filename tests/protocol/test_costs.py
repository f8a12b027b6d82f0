"""What messages cost beside uploads: how many numbers each holds, and bits and joules of sending them."""

import numpy as np
import pytest

from fedteddi.protocol.checks import received_reports
from fedteddi.protocol.costs import gradient_numbers, report_numbers, sending
from fedteddi.protocol.messages import (
    ALL_CLIENTS,
    UPDATE_SKETCH_SIZE,
    Answers,
    ClassGradients,
    Report,
    Request,
)
from fedteddi.settings import RadioSettings, Settings
from fedteddi.wireless.radio import Radio

SETTINGS = Settings().changed(training__local_steps=2, training__batch_size=2)


def test_sending_by_hand() -> None:
    """1 W, N0 = 1e-9 W/Hz, a band of 3 kHz for three, so 1 kHz and 1 µW of noise each.

    Gains of 1e-6 and 3e-6 are signal-to-noise ratios of 1 and 3, so 1,000 and 2,000 bit/s. 10 numbers are 320 bits:
    0.32 and 0.16 s, hence 0.48 J. Without a channel nothing is spent, but the bits were to be sent.
    """
    radio = Radio(power_dbm=30.0, noise_dbm_per_hz=-60.0)
    settings = RadioSettings(power_dbm=30.0, noise_dbm_per_hz=-60.0, total_hz=3000.0)
    cost = sending(np.array([10, 10, 10]), np.array([1e-6, 3e-6, 0.0]), radio, settings)
    assert cost.bits == 960
    assert cost.joules == pytest.approx(0.48, rel=1e-12)


@pytest.mark.parametrize("gain", [5e-324, 1e-320, 1e-318, 1e-200, 1e-30])
def test_a_channel_that_would_take_decades_counts_as_none(gain: float) -> None:
    """At 1e-30, 2e11 bit take 2e11 / (0.2 W · 1e-30 / (4e-21 W/Hz) / ln 2) = 2.8e21 s; at 5e-324 they overflow."""
    radio, settings = Radio(), RadioSettings()
    claimed, usual = np.array([6 * 10**9] * 3), np.array([gain, gain, 1e-8])
    alone = sending(claimed, np.array([0.0, 0.0, 1e-8]), radio, settings)
    assert sending(claimed, usual, radio, settings) == alone
    assert 0 < alone.joules < np.inf


def test_who_sends_nothing_spends_nothing() -> None:
    cost = sending(np.array([0, 0]), np.array([1e-6, 0.0]), Radio(), RadioSettings())
    assert (cost.bits, cost.joules) == (0.0, 0.0)


def test_a_report_holds_its_histograms_and_what_was_measured() -> None:
    """Three classes: 6 numbers; a variance, a loss and a measured time are one each, a sketch is 127."""
    counts = {"data_counts": np.array([4, 4, 0]), "batch_counts": np.array([2, 2, 0])}
    request = Request(kind="report", frame=0, round=1, weights=np.zeros(1), clients=(0, 1, 2))
    given = {
        0: Report(**counts),
        1: Report(**counts, gradient_variance=1.0, loss=2.0, compute_s=0.5),
        2: Report(**counts, update_sketch=np.ones(UPDATE_SKETCH_SIZE)),
    }
    received, _ = received_reports(Answers(given, {}), request, 3, SETTINGS)
    assert received is not None
    assert report_numbers(received, private=False).tolist() == [6, 9, 133]


def test_a_private_report_holds_a_mix_and_how_many_samples() -> None:
    request = Request(kind="report", frame=0, round=1, weights=np.zeros(1), clients=(0,))
    given = {0: Report(num_samples=8, released_mix=np.array([0.5, 0.5, 0.0]))}
    private = SETTINGS.changed(privacy__epsilon=1.0)
    received, _ = received_reports(Answers(given, {}), request, 3, private)
    assert received is not None
    assert report_numbers(received, private=True).tolist() == [4]


def test_class_gradients_hold_a_vector_for_each_class_asked_for() -> None:
    """Client 0 is asked for two classes, client 2 for one; vectors of 100 numbers, and three counts each."""
    wanted = np.array([[1, 0, 4], [5, 5, 5], [0, 2, 0]])
    everyone = {ALL_CLIENTS: ClassGradients(gradient_sum={}, counts=wanted.sum(axis=0))}
    assert gradient_numbers(everyone, wanted, (0, 2), 100).tolist() == [203, 103]


def test_class_gradients_of_a_fleet_are_counted_as_they_came() -> None:
    """Client 2 has no image of the class after all; client 1 did not answer."""
    wanted = np.array([[1, 0, 4], [5, 5, 5], [0, 2, 0]])
    came = {
        0: ClassGradients(gradient_sum={0: np.zeros(50), 2: np.zeros(50)}, counts=np.array([1, 0, 4])),
        2: ClassGradients(gradient_sum={}, counts=np.zeros(3)),
    }
    assert gradient_numbers(came, wanted, (0, 1, 2), 100).tolist() == [103, 0, 3]
