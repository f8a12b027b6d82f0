"""3GPP TR 38.901 UMi as NVIDIA's Sionna computes it; an extra: pip install 'fedteddi[sionna]'."""

from dataclasses import dataclass
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.extras import install_command
from fedteddi.wireless.channels.channel import Draws
from fedteddi.wireless.channels.shadowing import gain_from_db
from fedteddi.wireless.channels.umi import NEAREST_M, SERVER_HEIGHT_M, UMi

MOST_CLIENTS = 2000  # it correlates every pair of them, in each of seven parameters
GENERATOR = Lock()  # Sionna has one, and halves of a batch of runs are played in threads
ANTENNA = {
    "num_rows_per_panel": 1,
    "num_cols_per_panel": 1,
    "polarization": "single",
    "polarization_type": "V",
    "antenna_pattern": "omni",
}
ON_CPU = {"precision": "double", "device": "cpu"}


@dataclass(frozen=True, kw_only=True)
class Sionna(UMi):
    """TR 38.901 UMi outdoors through Sionna: `umi`, with shadowing correlated over space.

    The correlation is Sionna's: exp(−d/10 m) among clients in sight of the server, exp(−d/13 m) among the others. Its
    generator is set from the keyed draws each time. Hoydis et al., "Sionna: An open-source library for next-generation
    physical layer research", arXiv:2203.11854.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        _part("phy")  # so that a run without it ends before it begins

    def gains(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        """Return |H_n|² of every client in one round, [N]."""
        rng = draws.redrawn() if self.shadowing == "redrawn" else draws.static()
        with GENERATOR:
            scenario, generator = self.scenario(), _part("phy").config.torch_rng("cpu")
            large_scale, others = _part("phy.channel.tr38901").LSPGenerator(scenario), generator.get_state()
            try:
                generator.manual_seed(int(draws.static(part=1).integers(2**63)))
                scenario.set_topology(**self.topology(positions_m))  # a new one draws lines of sight
                large_scale.topology_updated_callback()
                generator.manual_seed(int(rng.integers(2**63)))
                shadowing = large_scale().sf[0, 0].numpy()  # a factor, [N]
            finally:
                generator.set_state(others)  # whoever else uses Sionna draws from it
        return np.asarray(shadowing * gain_from_db(scenario.basic_pathloss[0, 0].numpy()))

    def scenario(self) -> Any:
        """Return Sionna's UMi scenario with one isotropic antenna everywhere, without a topology."""
        tr38901, carrier_hz = _part("phy.channel.tr38901"), self.carrier_ghz * 1e9
        antenna = tr38901.PanelArray(**ANTENNA, carrier_frequency=carrier_hz, **ON_CPU)
        return tr38901.UMiScenario(carrier_hz, "low", antenna, antenna, "uplink", **ON_CPU)

    def topology(self, positions_m: np.ndarray) -> dict[str, np.ndarray]:
        """Return where everybody is, as Sionna is told: all outdoors, nobody nearer than the tables go."""
        clients = len(positions_m)
        if clients > MOST_CLIENTS:
            raise InputError(
                f"radio.channel='sionna' is for at most {MOST_CLIENTS} clients, not {clients}: use radio.channel='umi'"
            )
        distance_m = np.hypot(positions_m[:, 0], positions_m[:, 1])  # [N]
        farther = np.maximum(NEAREST_M / np.maximum(distance_m, 1e-9), 1.0)  # [N]
        height_m = np.full((clients, 1), self.client_height_m)
        return {
            "ut_loc": np.concatenate([farther[:, None] * positions_m, height_m], axis=1)[None],  # [1, N, 3]
            "bs_loc": np.array([[[0.0, 0.0, SERVER_HEIGHT_M]]]),
            "ut_orientations": np.zeros((1, clients, 3)),
            "bs_orientations": np.zeros((1, 1, 3)),
            "ut_velocities": np.zeros((1, clients, 3)),
            "in_state": np.zeros((1, clients), dtype=bool),
        }


def _part(module: str) -> Any:
    try:
        return import_module(f"sionna.{module}")
    except ImportError as error:
        raise InputError(
            f"radio.channel='sionna' needs Sionna ({error}): {install_command('sionna')}, or use radio.channel='umi'"
        ) from None
