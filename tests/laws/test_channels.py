"""Every channel keeps the invariants; and the invariants notice channels that do not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedteddi.randomness import keyed_rng
from fedteddi.wireless.channels import CHANNELS, Channel, Draws, Rayleigh, Shadowing, Trace
from fedteddi.wireless.channels.laws import ANSWERS, LAWS, check_channel

CLIENTS = 4


def made(name: str, folder: Path) -> Channel:
    """A channel by name and, after a blank, its mode; a trace of two rounds in three frames."""
    kind, _, mode = name.partition(" ")
    if kind == "sionna":
        pytest.importorskip("sionna.phy", reason="Sionna is an extra: pip install 'fedteddi[sionna]'")
    if kind != "trace":
        return CHANNELS.built_in()[kind](**{"shadowing": mode} if mode else {})  # type: ignore[call-arg]
    file = folder / "gains.csv"
    rng = np.random.default_rng(0)
    rows = [
        f"{frame},{number},{client},{rng.random()}"
        for frame in range(3)
        for number in (1, 2)
        for client in range(CLIENTS)
    ]
    file.write_text("frame,round,client,value\n" + "\n".join(rows) + "\n")
    return Trace(gain_trace=str(file))


CASES = [
    *CHANNELS.built_in(),
    *(f"{name} static" for name in ("shadowing", "rayleigh", "rician", "umi", "sionna")),
]


@pytest.mark.parametrize("case", CASES)
def test_every_channel_keeps_the_laws(case: str, tmp_path: Path) -> None:
    clients = (CLIENTS,) if case == "trace" else (1, 2, 30)
    assert check_channel(made(case, tmp_path), clients=clients) == {}


@pytest.mark.parametrize("case", CASES)
def test_gains_of_ours_are_positive(case: str, tmp_path: Path) -> None:
    channel = made(case, tmp_path)
    where_m = np.full((CLIENTS, 2), 100.0)
    gains = [channel.gains(where_m, Draws(0, 1, number)) for number in range(1, 50)]
    assert (np.array(gains) > 0).all()


# What a channel's gains change with: seed, frame, round. A trace repeats its two rounds; static means static.
CHANGES = {
    "shadowing": (True, True, True),
    "shadowing static": (True, False, False),
    "rayleigh": (True, True, True),
    "rayleigh static": (True, True, True),  # the fading is still redrawn
    "rician": (True, True, True),
    "rician static": (True, True, True),
    "correlated-shadowing": (True, True, True),  # round 1 of another frame is another time
    "mobile": (True, True, True),
    "umi": (True, True, True),
    "umi static": (True, False, False),
    "sionna": (True, True, True),
    "sionna static": (True, False, False),
    "trace": (False, True, True),
}


@pytest.mark.parametrize("case", CASES)
def test_gains_change_with_what_they_should(case: str, tmp_path: Path) -> None:
    channel = made(case, tmp_path)
    where_m = np.full((CLIENTS, 2), 100.0)
    here, *others = (
        channel.gains(where_m, Draws(seed, frame, number, rounds_before=10 * frame))
        for seed, frame, number in ((0, 1, 1), (1, 1, 1), (0, 2, 1), (0, 1, 2))
    )
    assert tuple(not np.array_equal(here, other) for other in others) == CHANGES[case]
    assert tuple(bool((here != other).all()) for other in others) == CHANGES[case]  # for every client


class Rogue:
    """Rayleigh fading, spoilt."""

    def __init__(self, spoil: Callable[["Rogue", np.ndarray, Draws], object]) -> None:
        self.spoil, self.asked = spoil, 0

    def gains(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        self.asked += 1
        return self.spoil(self, positions_m, draws)  # type: ignore[return-value]


def honest(_rogue: Rogue, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
    return Rayleigh().gains(positions_m, draws)


UNSEEDED = np.random.default_rng(0)
ROGUES: dict[str, tuple[Callable[[Rogue, np.ndarray, Draws], object], str, str]] = {
    "one number": (lambda _r, _p, _d: 1.0, ANSWERS, "returned float, not an array"),
    "a column": (lambda _r, p, _d: np.ones((len(p), 1)), ANSWERS, "returned shape (1, 1), not (1,)"),
    "dB": (
        lambda r, p, d: 10 * np.log10(honest(r, p, d)),
        ANSWERS,
        "for client 0 (seed 0, frame 0, round 1)",
    ),
    "not a number": (lambda _r, p, _d: np.full(len(p), np.nan), ANSWERS, "returned nan for client 0"),
    "text": (lambda _r, p, _d: np.array(["x"] * len(p)), ANSWERS, "returned an array of <U1"),
    "raises": (lambda _r, p, _d: np.ones(len(p)) / [][0], ANSWERS, "raised IndexError"),
    "exits": (lambda _r, _p, _d: (_ for _ in ()).throw(SystemExit(3)), ANSWERS, "raised SystemExit: 3"),
    "moves the clients": (lambda _r, p, _d: p.sort(axis=0), ANSWERS, "raised ValueError"),
    "chance of its own": (
        lambda _r, p, _d: UNSEEDED.random(len(p)),
        "same key, same gains",
        "draw from the given draws only",
    ),
    "memory": (
        lambda r, p, d: honest(r, p, d) * (1 + (r.asked > 6)),
        "no memory of other rounds",
        "keep no memory in the channel",
    ),
}


@pytest.mark.parametrize("rogue", ROGUES)
def test_a_channel_that_breaks_a_law_is_found(rogue: str) -> None:
    spoil, law, fault = ROGUES[rogue]
    assert fault in check_channel(Rogue(spoil))[law]


def test_the_honest_rogue_passes() -> None:
    """So the rogues above are found for what they spoil, not for what they share."""
    assert check_channel(Rogue(honest)) == {}
    assert set(LAWS) == {law for _, law, _ in ROGUES.values()}


def test_draws_are_keyed_as_everything_is() -> None:
    """Redrawn: by seed, frame and round; static: by the seed alone; "fading" apart from "channel"."""
    draws = Draws(5, 2, 3)
    assert draws.redrawn().random() == keyed_rng(5, "channel", frame=2, round=3).random()
    assert draws.redrawn("fading").random() == keyed_rng(5, "fading", frame=2, round=3).random()
    assert draws.static().random() == keyed_rng(5, "channel").random()
    assert draws.static("fading").random() == keyed_rng(5, "fading").random()
    assert draws.static("movement", part=7).random() == keyed_rng(5, "movement", step=7).random()
    assert len({draws.redrawn(c).random() for c in ("channel", "fading")}) == 2  # type: ignore[arg-type]


def test_fading_leaves_the_shadowing_as_it_was() -> None:
    """Rayleigh over shadowing is the power of "fading", Exp(1), and nothing else."""
    where_m = np.full((CLIENTS, 2), 100.0)
    draws = Draws(7, 1, 4)
    ratio = Rayleigh().gains(where_m, draws) / Shadowing().gains(where_m, draws)
    np.testing.assert_allclose(ratio, draws.redrawn("fading").standard_exponential(CLIENTS), rtol=1e-12)
