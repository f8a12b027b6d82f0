"""What users may rely on. A change here is a change for them: put it into CHANGELOG.md."""

import dataclasses
import inspect

import fedteddi


def test_public_names_are_frozen() -> None:
    assert fedteddi.__all__ == [
        "Dataset",
        "InputError",
        "Objective",
        "Reference",
        "RoundView",
        "RunOptions",
        "Schedule",
        "Scheduler",
        "SchedulerWithMemory",
        "Settings",
        "Shadowing",
        "check_aggregation",
        "check_channel",
        "check_local_training",
        "check_scheduler",
        "collective_divergence",
        "compare",
        "convergence_bound",
        "deviation_bound",
        "example_round",
        "fill_band",
        "make_scheduler",
        "minimum_bandwidth_hz",
        "rate_bps",
        "read_study",
        "scheduler_names",
        "simulate",
        "sweep",
        "temporal_drift",
    ]


def test_every_public_name_exists_and_is_documented() -> None:
    for name in fedteddi.__all__:
        assert inspect.getdoc(getattr(fedteddi, name)), name


def test_fields_of_the_seam_are_frozen() -> None:
    names = [f.name for f in dataclasses.fields(fedteddi.RoundView)]
    assert names == [
        *("frame", "round", "rounds_in_frame", "batch_size", "total_hz"),
        *(
            "num_samples",
            "batch_mix",
            "data_mix",
            "previous_data_mix",
            "needed_hz",
            "channel_gain",
            "times_scheduled",
        ),
        *("gradient_std", "class_norm", "loss", "update_norm", "update_sketch", "classes_seen"),
        *("compute_s", "download_s", "deadline_s", "model_bits", "client_id"),
    ]
    assert [f.name for f in dataclasses.fields(fedteddi.Schedule)] == [
        "clients",
        "bandwidth_hz",
        "trace",
        "bound",
    ]


def test_minimum_bandwidth_signature() -> None:
    signature = inspect.signature(fedteddi.minimum_bandwidth_hz)
    assert list(signature.parameters) == ["model_bits", "time_left_s", "power_w", "gain", "noise_w_per_hz"]


def test_built_in_rules() -> None:
    paper = ["best-channel", "best-norm", "fed-cbs", "fedcgd", "power-of-choice", "pure-drift", "random"]
    ours = ["fedteddi", "fedteddi-plus"]
    latency = ["best-channel-best-norm", "fedcs", "minimum-latency", "proportional-fair"]
    utility = ["afl", "divfl", "fedcor", "lyapunov-energy", "oort", "tifl"]
    turns = ["age-of-update", "round-robin"]
    assert fedteddi.scheduler_names()[:21] == [*ours, *sorted([*paper, *latency, *utility, *turns])]
