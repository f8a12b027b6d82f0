"""Channels against their formulas, and in the settings of an experiment."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedteddi import InputError, simulate
from fedteddi.randomness import keyed_rng
from fedteddi.settings import RadioSettings, read_settings, write_settings
from fedteddi.wireless.channels import Draws, Rayleigh, Shadowing, make_channel
from fedteddi.wireless.environment import Environment
from small_world import tiny_data, tiny_settings

CLIENTS, ROUNDS = 50, 400


@pytest.fixture(scope="module")
def powers() -> np.ndarray:
    """|h|² of every round and client, [ROUNDS, CLIENTS]: the gain without path loss and shadowing."""
    where_m = np.full((CLIENTS, 2), [1000.0, 0.0])  # 1 km: 128.1 dB
    channel = Rayleigh(shadowing_std_db=0.0)
    return np.array([channel.gains(where_m, Draws(3, 1, k)) for k in range(1, ROUNDS + 1)]) * 10**12.81


def test_rayleigh_power_is_exponential_with_mean_1(powers: np.ndarray) -> None:
    """Exp(1): mean 1 and standard deviation 1, so the mean of 20,000 lies within 5/√20000 = 0.035.

    Quantile q is −ln(1 − q), with a standard error of √(q/(1−q)/n): at 0.99, 4.605 ± 5 · 0.07.
    """
    every = powers.ravel()
    assert every.mean() == pytest.approx(1.0, abs=0.035)
    for q in (0.1, 0.5, 0.9, 0.99):
        error = np.sqrt(q / (1 - q) / every.size)
        assert np.quantile(every, q) == pytest.approx(-np.log(1 - q), abs=5 * error)
    assert stats.kstest(every, "expon").pvalue > 0.01


def test_rayleigh_power_is_the_square_of_a_complex_gaussian(powers: np.ndarray) -> None:
    """An independent reading: h = (x + iy)/√2 with x, y ~ N(0, 1)."""
    rng = np.random.default_rng(0)
    h = (rng.standard_normal(20_000) + 1j * rng.standard_normal(20_000)) / np.sqrt(2)
    assert stats.ks_2samp(powers.ravel(), np.abs(h) ** 2).pvalue > 0.01


def test_rayleigh_is_independent_over_rounds_and_clients(powers: np.ndarray) -> None:
    """Correlations of neighbours over n independent pairs have a standard error of 1/√n: 5/√20000 = 0.035.

    Exponential tails make single pairs of clients (n = 400, ± 0.05) wilder: of 1,225 none beyond 6 errors.
    """
    assert abs(np.corrcoef(powers[1:].ravel(), powers[:-1].ravel())[0, 1]) < 0.036
    assert abs(np.corrcoef(powers[:, 1:].ravel(), powers[:, :-1].ravel())[0, 1]) < 0.036
    pairs = np.corrcoef(powers.T)[np.triu_indices(CLIENTS, 1)]
    assert np.abs(pairs).max() < 6 / np.sqrt(ROUNDS)


def test_rayleigh_is_redrawn_where_shadowing_is_static() -> None:
    """In dB: 8 dB between clients for good, and 10/ln 10 · π/√6 = 5.57 dB of fading from round to round."""
    where_m = np.full((2000, 2), [100.0, 0.0])
    channel = Rayleigh(shadowing="static")
    db = 10 * np.log10([channel.gains(where_m, Draws(0, 1, k)) for k in range(1, 41)])  # [40, 2000]
    assert db.std(axis=0, ddof=1).mean() == pytest.approx(5.57, abs=0.15)
    # Between the clients' means: 8² + 5.57²/40.
    assert db.mean(axis=0).std() == pytest.approx(np.sqrt(64 + 31.0 / 40), abs=0.5)


def test_shadowing_against_the_formula_number_by_number() -> None:
    """|H|² = 10^(−(128.1 + 37.6 log10 d_km + 8 z)/10), z the keyed normal draws of the round."""
    where_m = np.array([[30.0, 40.0], [0.0, 200.0]])  # 50 m and 200 m
    z = keyed_rng(9, "channel", frame=2, round=5).standard_normal(2)
    expected = 10 ** (-(128.1 + 37.6 * np.log10([0.05, 0.2]) + 8 * z) / 10)
    np.testing.assert_allclose(Shadowing().gains(where_m, Draws(9, 2, 5)), expected, rtol=1e-12)


# --- in the settings


def world(**radio: Any) -> Environment:
    return Environment.make(RadioSettings(**radio), 0, 3, 60)


def test_the_channel_of_the_settings_is_used() -> None:
    where_m = world().where_m
    plain, faded = world(), world(channel="rayleigh", shadowing="static", shadowing_std_db=4.0)
    np.testing.assert_array_equal(plain.channel_gain(1, 2), Shadowing().gains(where_m, Draws(0, 1, 2)))
    expected = Rayleigh(shadowing="static", shadowing_std_db=4.0).gains(where_m, Draws(0, 1, 2))
    np.testing.assert_array_equal(faded.channel_gain(1, 2), expected)


def test_a_gain_trace_implies_its_channel(tmp_path: Path) -> None:
    file = tmp_path / "gains.csv"
    file.write_text("frame,round,client,value\n1,1,0,0.5\n1,1,1,0\n1,1,2,0.25\n")
    for radio in ({"gain_trace": str(file)}, {"gain_trace": str(file), "channel": "trace"}):
        assert world(**radio).channel_gain(1, 1).tolist() == [0.5, 0.0, 0.25]  # 0: cannot be heard


OWN = """
from dataclasses import dataclass
import sys
import numpy as np

@dataclass(frozen=True)
class Steady:
    level: float = 1e-9
    def gains(self, positions_m, draws):
        return np.full(len(positions_m), self.level * draws.round)

class Raising:
    def gains(self, positions_m, draws):
        raise KeyError("lost")

class Exiting:
    def gains(self, positions_m, draws):
        sys.exit(4)

class Short:
    def gains(self, positions_m, draws):
        return np.ones(1)

class Negative:
    def gains(self, positions_m, draws):
        return np.linspace(1.0, -1.0, len(positions_m))

class Late:
    def gains(self, positions_m, draws):
        return np.full(len(positions_m), np.inf if draws.frame == 2 else 1e-9)

class Remembering:
    past = 0.0
    def gains(self, positions_m, draws):
        self.past = 0.9 * self.past + draws.redrawn().exponential(size=len(positions_m))
        return self.past

class Unmakeable:
    def __init__(self):
        sys.exit("no")
    def gains(self, positions_m, draws): ...

def function(positions_m, draws): ...
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    return file


def test_a_channel_of_ones_own(own: Path) -> None:
    mine = world(channel=f"{own}:Steady", channel_options={"level": 2.0})
    assert mine.channel_gain(0, 3).tolist() == [6.0] * 3


@pytest.mark.parametrize(
    ("radio", "message"),
    [
        ({"channel": "raileigh"}, "no channel is called 'raileigh' (did you mean 'rayleigh'?): known are shadowing"),
        ({"channel": "trace"}, "radio.channel='trace' has no gains to read: set radio.gain_trace"),
        (
            {"channel": "rayleigh", "gain_trace": "g.csv"},
            "radio.channel='rayleigh' and radio.gain_trace='g.csv' exclude each other: set one of them",
        ),
        (
            {"gain_trace": "g.csv", "shadowing": "static"},
            "radio.shadowing='static' has no effect on radio.channel='trace': leave it out",
        ),
        ({"gain_trace": "absent.csv"}, "absent.csv cannot be read"),
        ({"channel_options": {"shadowing": "static"}}, "radio.channel_options.shadowing='static': set radio.shadowing"),
        ({"channel_options": {"levl": 1}}, "shadowing has no option 'levl': it has shadowing_std_db, shadowing"),
        ({"channel": "{own}:Steady", "channel_options": {"levl": 1}}, "(did you mean 'level'?): it has level"),
        ({"channel": "{own}:Absent"}, "mine.py has no 'Absent'"),
        ({"channel": "{own}:function"}, "mine.py:function returned NoneType, not an array in frame 0, round 1"),
        ({"channel": "{own}:Unmakeable"}, "mine.py:Unmakeable could not be made: SystemExit: no"),
        ({"channel": "{own}:Raising"}, "mine.py:Raising raised KeyError: 'lost' (mine.py, line "),
        ({"channel": "{own}:Exiting"}, "mine.py:Exiting called sys.exit(4) (mine.py, line "),
        ({"channel": "{own}:Short"}, "mine.py:Short returned shape (1,), not (6,) in frame 0, round 1: return |H|²"),
        ({"channel": "{own}:Negative"}, "mine.py:Negative returned -0.2 for client 3 in frame 0, round 1"),
        ({"channel": "{own}:Remembering"}, "mine.py:Remembering gave other gains after other rounds (seed 0, frame 0"),
        ({"channel": "{own}:Late"}, "mine.py:Late returned inf for client 0 in frame 2, round 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_channel_is_one_sentence_before_anything_runs(
    radio: dict[str, Any], message: str, own: Path, tmp_path: Path
) -> None:
    changes = {f"radio__{key}": value for key, value in radio.items()}
    changes |= {key: value.format(own=own) for key, value in changes.items() if isinstance(value, str)}
    with pytest.raises(InputError) as refused:
        simulate(tiny_settings(**changes), data=tiny_data(), out=tmp_path / "run")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_a_run_on_another_channel_schedules_others_on_the_same_data(own: Path) -> None:
    plain, faded = (
        simulate(tiny_settings(rounds=[3, 0, 0], radio__channel=name), data=tiny_data())
        for name in ("shadowing", "rayleigh")
    )
    assert plain.records[0] == faded.records[0]
    assert [r.bandwidth_hz for r in plain.records[1:4]] != [r.bandwidth_hz for r in faded.records[1:4]]
    mine = simulate(
        tiny_settings(
            rounds=[3, 0, 0], radio__channel=f"{own}:Steady", radio__channel_options={"level": 1.0}
        ),
        data=tiny_data(),
    )
    assert all(r.clients for r in mine.records[1:4])


def test_settings_with_a_channel_survive_writing() -> None:
    settings = tiny_settings(
        radio__channel="mine.py:Steady", radio__channel_options={"level": 2.5, "kind": "x"}
    )
    assert read_settings(write_settings(settings), "written") == settings
    assert make_channel(tiny_settings().radio) == Shadowing()


def test_a_channel_that_fills_a_memory_while_it_is_tried_is_refused(tmp_path: Path) -> None:
    """It builds on what it was asked before, and caches by round: asked once, it repeats itself in any order."""
    (tmp_path / "mine.py").write_text(
        """
class Sticky:
    def __init__(self):
        self.known = {}

    def gains(self, positions_m, draws):
        key = draws.frame, draws.round
        if key not in self.known:
            before = self.known.get((draws.frame, draws.round - 1), 1.0)
            self.known[key] = 0.5 * before + 1e-9 * draws.redrawn().random(len(positions_m))
        return self.known[key]
"""
    )
    settings = tiny_settings(radio__channel=f"{tmp_path}/mine.py:Sticky")
    with pytest.raises(
        InputError, match="keep no memory in the channel; try 'fedteddi check --kind channel'"
    ):
        simulate(settings, data=tiny_data())
