"""The cell as it was: where clients stood and what each needed of the band, computed again from the seed.

Positions, gains and computation times follow from seed and settings; the model's size follows from any recorded upload,
because D_s = B_n log2(1 + P|H_n|²/(B_n N0)) (t_n − t_cp). All recorded uploads must give the same size: so the record
itself shows whether what was computed again is what the run saw.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.protocol.record import RoundRecord
from fedteddi.results.page.detail import spaced
from fedteddi.results.page.own_code import refuse_own_code
from fedteddi.results.runs import REFERENCES, RunRecord
from fedteddi.settings import Settings
from fedteddi.wireless.cell import positions_of
from fedteddi.wireless.channels import Draws
from fedteddi.wireless.environment import Environment
from fedteddi.wireless.radio import watts_from_dbm
from fedteddi.wireless.uplink import rate_bps

AGREES = 1e-6  # relative
TRIED = 40  # rounds whose uploads are compared
PER_MILLE = 1000  # of the band


@dataclass(frozen=True, eq=False)
class World:
    """The radio of one seed as it can be computed again; `note` says what could not, and why."""

    where_m: np.ndarray  # [N, 2]
    environment: Environment | None = None
    model_bits: float | None = None
    note: str = ""

    def needed_hz(self, frame: int, round: int) -> np.ndarray | None:
        """Return B* of all clients in a round, [N]; inf = cannot meet the deadline."""
        if self.environment is None or self.model_bits is None:
            return None
        world = self.environment
        gain, compute_s = world.channel_gain(frame, round), world.compute_s(frame, round)
        download_s = world.download_s(gain, self.model_bits)
        ready_s = compute_s if download_s is None else download_s + compute_s
        return world.needed_hz(frame, round, gain, ready_s, self.model_bits)

    def places_m(self, frame: int, round: int) -> np.ndarray:
        """Return where the clients are in a round, [N, 2]: they walk where the channel lets them."""
        world = self.environment
        walk = None if world is None else getattr(world.channel, "places_m", None)
        if world is None or walk is None:
            return self.where_m
        draws = Draws(world.seed, frame, round, rounds_before=sum(world.rounds[:frame]))
        return np.asarray(walk(self.where_m, draws))

    @property
    def moves(self) -> bool:
        """Whether clients change their places."""
        return self.environment is not None and hasattr(self.environment.channel, "places_m")


def world_of(runs: Iterable[RunRecord]) -> World | None:
    """Compute the radio that runs of one seed and condition share; None of bounds alone, which have none."""
    limited = [run for run in runs if run.scheduler not in REFERENCES]
    if not limited:
        return None
    settings, clients = limited[0].settings, limited[0].counts.shape[1]
    where_m = positions_of(settings.seed, clients, settings.radio.radius_m)
    try:
        environment = environment_of(settings, clients)
        bits, note = _model_bits([record for run in limited for record in run.records], environment)
    except (InputError, OSError, ValueError) as error:
        return World(where_m, note=f"the channel cannot be computed again here ({error})")
    return World(where_m, environment if bits is not None else None, bits, note)


def environment_of(settings: Settings, clients: int) -> Environment:
    """Return a seed's channel and speeds as a run makes them."""
    refuse_own_code(settings, "radio.channel")
    samples = settings.training.local_steps * settings.training.batch_size
    return Environment.make(settings.radio, settings.seed, clients, samples, rounds=settings.rounds)


def world_columns(world: World, rounds: Sequence[tuple[int, int]], clients: Sequence[int]) -> dict[str, Any]:
    """Return places in metres and, by round, B* in thousandths of the band: −1 for who cannot meet the deadline."""
    found: dict[str, Any] = {"note": world.note, "places": _metres(world.where_m[clients])}
    if world.moves:
        found["moving"] = [_metres(world.places_m(*one)[clients]) for one in rounds]
    needs = [world.needed_hz(*one) for one in rounds]
    if world.environment is not None:
        total_hz = world.environment.settings.total_hz
        found["needed"] = [_parts(own[clients], total_hz) for own in needs if own is not None]
        found["infeasible"] = [int(np.count_nonzero(~(own <= total_hz))) for own in needs if own is not None]
    return found


def _parts(needed_hz: np.ndarray, total_hz: float) -> list[int]:
    with np.errstate(invalid="ignore"):
        parts = np.ceil(needed_hz / total_hz * PER_MILLE)
    return [int(part) if part <= 9 * PER_MILLE else -1 for part in parts]


def _metres(where_m: np.ndarray) -> list[list[float]]:
    return [[round(float(x), 1), round(float(y), 1)] for x, y in where_m]


def _model_bits(records: Sequence[RoundRecord], world: Environment) -> tuple[float | None, str]:
    """Return D_s as all recorded uploads tell it, or None and why not."""
    told = [one for one in records if one.clients and len(one.bandwidth_hz) == len(one.clients)]
    told = [one for one in told if len(one.finish_s) == len(one.compute_s) == len(one.clients)]
    if not told:
        return None, "no upload with its times is on record, so what clients needed of the band is not known"
    told = [told[index] for index in spaced(len(told), TRIED)]
    found = np.concatenate([_uploaded_bits(one, world) for one in told])
    size = float(np.median(found))
    timely = all(
        np.allclose(one.compute_s, world.compute_s(one.frame, one.round)[list(one.clients)], rtol=AGREES)
        for one in told
    )
    if not (timely and np.all(np.abs(found - size) <= AGREES * size)):
        return None, (
            "the recorded uploads do not fit the channel that the settings give (measured on a fleet, or by another"
            " version), so what clients needed of the band is not shown"
        )
    return round(size), ""


def _uploaded_bits(one: RoundRecord, world: Environment) -> np.ndarray:
    """Return how many bits each scheduled client's bandwidth carried in its time, [n]."""
    members = np.array(one.clients, dtype=np.intp)
    radio = world.settings
    gain = world.channel_gain(one.frame, one.round)[members]
    power_w, noise = watts_from_dbm(radio.power_dbm), watts_from_dbm(radio.noise_dbm_per_hz)
    sending_s = np.array(one.finish_s) - np.array(one.compute_s)
    if one.download_s is not None:
        sending_s = sending_s - np.array(one.download_s)
    return np.asarray(rate_bps(np.array(one.bandwidth_hz), power_w, gain, noise) * sending_s)
