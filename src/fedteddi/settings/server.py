"""The sections [server], [privacy] and [fleet]: what the server does, and how far and how long it trusts clients."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fedteddi.settings.key import Positive, Section, key


class ServerSettings(Section):
    """What the server does with uploads, and how far it trusts what clients say (docs/metrics.md)."""

    aggregation: str = key(
        "fedavg", "How the next model is made of the uploads.", paper="fedavg", named="aggregations"
    )
    aggregation_options: dict[str, Any] = key(
        {}, "Options of that aggregation, such as server_momentum = 0.5 of fedavgm."
    )
    max_sample_share: Annotated[float, Field(gt=0, le=1)] = key(
        1.0, "The most that α_n of one client may be in any average; 1: no bound."
    )

    quarantine_rounds: Annotated[int, Field(ge=0)] = key(
        0,
        "For how many rounds a client is not asked whose upload made the model diverge, which is put back, or who"
        " was scheduled alone three times in a row; 0: nobody, and a run that diverges ends.",
        unit="rounds",
    )
    claim_factor: Annotated[float, Field(ge=0, allow_inf_nan=False)] = key(
        0.0,
        "How many times the others' median what one client says of σ̂², loss, update norm and class gradients may"
        " be, and a computation time this part of it; 0: no bound.",
    )


class PrivacySettings(Section):
    """Noise on the class histograms that clients release, one a frame (docs/privacy.md)."""

    epsilon: Annotated[float, Field(ge=0, le=1e6)] = key(
        0.0, "ε of one release; at least 1e-6, or 0: off, true histograms are sent.", paper="true histograms"
    )

    @model_validator(mode="after")
    def _noise_of_a_size(self) -> "PrivacySettings":
        if 0 < self.epsilon < 1e-6:
            raise ValueError(
                f"epsilon={self.epsilon:g} is too small to be useful: use 0 (off) or at least 1e-6"
            )
        return self


class FleetSettings(Section):
    """How long a real fleet may take, by the clock on the wall, and what is measured on it (docs/deploy.md)."""

    wait_s: Positive = key(
        60.0, "How long the server waits for all clients before the first round.", unit="s"
    )
    report_s: Positive = key(
        120.0, "How long clients may take for local training and their reports.", unit="s"
    )
    upload_s: Positive = key(60.0, "How long uploads may take.", unit="s")
    class_gradients_s: Positive = key(60.0, "How long class gradients may take.", unit="s")
    compute_s: Literal["measured", "modelled"] = key(
        "measured",
        "Which computation times t_cp count: those that devices measure, or the model's of [radio].",
    )
    class_gradients: Literal["sketch", "full"] = key(
        "sketch",
        "What devices send for L^(c), random projections of class gradients or whole ones, where"
        " estimates.class_gradients is left at full.",
    )
    uplink: Literal["modelled", "measured"] = key(
        "modelled",
        "What B* follows from where a device states no channel gain: the channel of [radio], or the rate of its own"
        " uploads, once there was one.",
    )
    pace: bool = key(
        False, "Whether a device holds its upload back for as long as its share of the band would take."
    )
    data: Literal["reported", "scenario"] = key(
        "reported",
        "What the server takes the clients' data to be where it evaluates models: what they report, or the scenario"
        " of these settings, as in a simulation.",
    )
    frames: Literal["scheduled", "clock", "detected"] = key(
        "scheduled",
        "When a frame begins: after the rounds of the one before; or earlier, after `frame_s`, or when enough"
        " clients report a changed class mix.",
    )
    frame_s: Positive = key(3600.0, "How long a frame lasts at most.", unit="s")
    changed_clients: Annotated[float, Field(gt=0, le=1)] = key(
        0.25, "The share of the clients whose class mix must have changed for a frame to begin."
    )
    changed_mix: Annotated[float, Field(gt=0, le=2)] = key(
        0.1, "How far a mix must have moved since the frame began to count as changed: Σ_c |p^(c) − p'^(c)|."
    )
    aggregation: str = key(
        "norm-clipping", "server.aggregation on a fleet, where that is left at fedavg.", named="aggregations"
    )
    max_sample_share: Annotated[float, Field(gt=0, le=1)] = key(
        0.2, "server.max_sample_share on a fleet, where that is left at 1."
    )
    quarantine_rounds: Annotated[int, Field(ge=0)] = key(
        10, "server.quarantine_rounds on a fleet, where that is left at 0.", unit="rounds"
    )
    claim_factor: Annotated[float, Field(ge=0, allow_inf_nan=False)] = key(
        30.0, "server.claim_factor on a fleet, where that is left at 0."
    )
