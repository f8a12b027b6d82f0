"""The section [radio]: how long computing and uploading take."""

from typing import Annotated, Any, Literal

from pydantic import Field

from fedteddi.settings.key import Dbm, NotNegative, Positive, Section, key


class RadioSettings(Section):
    """The cell, the uplink and the clients' speed."""

    total_hz: Positive = key(
        2e6, "B: the band of the uplink, shared by those who upload in a round.", unit="Hz", paper="20 MHz"
    )
    deadline_s: Positive = key(
        1.0,
        "T_max: when all uploads of a round must be done, counted from its start.",
        unit="s",
        paper="0.8, 1 and 1.2 (CIFAR-10), 30 (CIFAR-100)",
    )
    power_dbm: Dbm = key(23.0, "P: a client's transmit power.", unit="dBm", paper="23")
    noise_dbm_per_hz: Dbm = key(-174.0, "N0: noise density at the receiver.", unit="dBm/Hz", paper="−174")
    radius_m: Annotated[float, Field(ge=1, allow_inf_nan=False)] = key(
        250.0, "Radius of the cell; clients stand uniformly over its area.", unit="m", paper="250"
    )
    shadowing_std_db: NotNegative = key(
        8.0,
        "Standard deviation of log-normal shadowing; refused with a channel that has none.",
        unit="dB",
        paper="8",
    )
    shadowing: Literal["redrawn", "static"] = key(
        "redrawn",
        "Whether shadowing is drawn anew in each round or once; refused with a channel that has no such choice.",
    )
    downlink_hz: NotNegative = key(
        0.0,
        "B_dl: the band of the server's broadcast (docs/metrics.md); 0: clients have the model at once.",
        unit="Hz",
        paper="no downlink",
    )
    downlink_power_dbm: Dbm = key(
        46.0, "P_dl: the server's transmit power; refused without `downlink_hz`.", unit="dBm"
    )
    channel: str = key(
        "shadowing",
        "The model of the channel: every client's gain in each round.",
        paper="shadowing",
        named="channels",
    )
    channel_options: dict[str, Any] = key({}, "Options of that channel, such as k_db = 3 of rician.")
    seconds_per_sample: NotNegative = key(
        0.5e-3, "a: the least time that a client takes to train on a sample.", unit="s", paper="0.5 ms"
    )
    samples_per_second: Positive = key(
        2000.0,
        "μ: a client's random time on top of it is exponential with mean τ·b/μ, drawn in each round.",
        unit="samples/s",
        paper="2 samples/ms",
    )
    compute_power_w: NotNegative = key(
        1.0, "Power of a client that computes; it counts in the recorded energy only.", unit="W"
    )
    gain_trace: str = key(
        "",
        "A CSV file of measured gains |H|² with the columns frame, round, client, value; it implies channel = trace.",
    )
    compute_trace: str = key(
        "",
        "A CSV file of measured computation times t_cp in seconds, with the same columns; empty: modelled.",
    )
