"""The world around the clients in one round: how strong each one's signal is, how long each computes."""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fedteddi.errors import InputError
from fedteddi.randomness import RoundDraws, keyed_rng
from fedteddi.scenario.traces import read_trace, traced
from fedteddi.settings import RadioSettings
from fedteddi.wireless.cell import positions_of
from fedteddi.wireless.channels import CHANNELS, Channel, Draws, channel_name, checked_gains, make_channel
from fedteddi.wireless.channels.laws import refuse_own_memory
from fedteddi.wireless.computation import computation_delay_s
from fedteddi.wireless.radio import Radio


@dataclass(frozen=True, eq=False)
class Environment:
    """The channel and the clients' speed of one seed, modelled or measured. Knows nothing of schedulers."""

    settings: RadioSettings
    seed: int
    samples_per_round: int  # τ·b
    where_m: np.ndarray  # [N, 2]
    channel: Channel
    compute_trace: dict[int, np.ndarray]
    draws: RoundDraws  # of the seed: runs that share it share all of this, whatever their scheduler
    rounds: tuple[int, ...] = ()  # K of every frame: what goes on over frames needs to know

    @classmethod
    def make(
        cls,
        settings: RadioSettings,
        seed: int,
        clients: int,
        samples_per_round: int,
        draws: RoundDraws | None = None,
        rounds: Sequence[int] = (),
    ) -> "Environment":
        """Place the clients of this seed, make their channel and read the trace of their speed, if there is one."""
        power_dbm = settings.downlink_power_dbm
        if not settings.downlink_hz and power_dbm != RadioSettings.model_fields["downlink_power_dbm"].default:
            raise InputError(
                f"radio.downlink_power_dbm={power_dbm:g} has no effect without radio.downlink_hz: leave it out"
            )
        return cls(
            settings,
            seed,
            samples_per_round,
            positions_of(seed, clients, settings.radius_m),
            make_channel(settings),
            read_trace(settings.compute_trace, clients) if settings.compute_trace else {},
            draws or RoundDraws(),
            tuple(rounds),
        )

    def try_out(self, frames: Iterable[int]) -> None:
        """Ask the channel for rounds of these frames, so that what is wrong with it is said before anything runs."""
        name, unasked = channel_name(self.settings), copy.deepcopy(self.channel)
        rounds = [(self.where_m, self._draws(frame, number)) for frame in frames for number in (1, 2, 3)]
        for where_m, draws in rounds:
            checked_gains(self.channel, name, where_m, draws)
        if name not in CHANNELS.built_in():
            refuse_own_memory(unasked, name, rounds)  # one that was asked may have filled its memory

    @property
    def radio(self) -> Radio:
        """Power and noise."""
        return Radio(power_dbm=self.settings.power_dbm, noise_dbm_per_hz=self.settings.noise_dbm_per_hz)

    def channel_gain(self, frame: int, round: int) -> np.ndarray:
        """|H_n|², [N]; read-only."""

        def draw() -> np.ndarray:
            name, draws = channel_name(self.settings), self._draws(frame, round)
            return checked_gains(self.channel, name, self.where_m, draws)

        return self.draws.once(frame, round, (self, "gain"), draw)

    def compute_s(self, frame: int, round: int) -> np.ndarray:
        """t_cp, [N]; read-only."""
        return self.draws.once(
            frame, round, (self, "delay"), lambda: _read_only(self._compute_s(frame, round))
        )

    def download_s(self, gain: np.ndarray, model_bits: float) -> np.ndarray | None:
        """t_dl, [n], of clients with these gains; None where the broadcast takes no time, as in the paper."""
        if not self.settings.downlink_hz:
            return None
        return self.radio.broadcast_s(
            gain,
            model_bits=model_bits,
            downlink_hz=self.settings.downlink_hz,
            downlink_power_dbm=self.settings.downlink_power_dbm,
        )

    def needed_hz(
        self, frame: int, round: int, gain: np.ndarray, ready_s: np.ndarray, model_bits: float
    ) -> np.ndarray:
        """B*, [n], of clients with these gains that could begin to upload at these times; read-only."""
        gain, ready_s = np.asarray(gain, dtype=np.float64), np.asarray(ready_s, dtype=np.float64)
        deadline_s = self.settings.deadline_s
        return self.draws.once(
            frame,
            round,
            (self, "needed", gain.tobytes(), ready_s.tobytes(), model_bits),
            lambda: _read_only(
                self.radio.needed_hz(gain, ready_s, deadline_s=deadline_s, model_bits=model_bits)
            ),
        )

    def _draws(self, frame: int, round: int) -> Draws:
        return Draws(self.seed, frame, round, rounds_before=sum(self.rounds[:frame]))

    def _compute_s(self, frame: int, round: int) -> np.ndarray:
        if self.compute_trace:
            return traced(self.compute_trace, self.settings.compute_trace, frame, round)
        return computation_delay_s(
            len(self.where_m),
            self.samples_per_round,
            keyed_rng(self.seed, "delay", frame=frame, round=round),
            seconds_per_sample=self.settings.seconds_per_sample,
            samples_per_second=self.settings.samples_per_second,
        )


def _read_only(values: np.ndarray) -> np.ndarray:
    """Return a view that nobody can change: many runs look at the same values."""
    view = values.view()
    view.flags.writeable = False
    return view
