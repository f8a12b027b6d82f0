"""The sections [estimates] and [evaluation]: what is measured for the scheduler, and what for the record."""

from typing import Annotated, Literal

from pydantic import Field

from fedteddi.settings.key import AllOrCount, Count, Section, key


class EstimateSettings(Section):
    """How σ and L^(c) are estimated (docs/paper.md D5 to D7)."""

    class_norm: Literal["paper", "exact"] = key(
        "paper", "L^(c): the paper's estimate (20), or the class gradient's norm itself.", paper="D7"
    )
    class_norm_every: Count = key(1, "How often L^(c) is estimated anew.", unit="rounds", paper="D7")
    class_gradient_samples: Count = key(
        64, "How many images of each class its gradient is measured on, drawn from all clients.",
        unit="samples", paper="D7",
    )  # fmt: skip
    class_norm_layers: Literal["all", "head"] = key(
        "all", "Whether class gradients are taken over all layers or over the last alone.", paper="D7"
    )
    class_gradients: Literal["full", "sketch"] = key(
        "full",
        "What clients send for L^(c): whole gradients, or random projections of them (docs/metrics.md).",
    )
    first_class_norm: Literal["estimated", "ones"] = key(
        "estimated", "L^(c) before a frame's first round: estimated over all clients, or ones.", paper="D6"
    )
    gradient_std: Literal["variance", "std"] = key(
        "variance",
        "What σ is a mean of over clients: their gradient variances, or the roots of these.",
        paper="D5",
    )
    gradient_std_clients: AllOrCount = key(
        "all", "How many clients, drawn in each round, measure their gradient variance for σ.", paper="D5"
    )
    power_of_choice_loss: Literal["first-batch", "local-steps"] = key(
        "first-batch",
        "The loss that clients report: that of the model they were sent on their first batch, or the mean over their"
        " local steps, for which everybody trains.",
    )


class EvaluationSettings(Section):
    """How often and on what models are evaluated, and what is recorded."""

    every: Count = key(
        5,
        "How often the test accuracy is measured; a frame's first and last model always are.",
        unit="rounds",
    )
    loss_samples: Count = key(
        2000, "On how many local samples F_l is measured, which decides the model that a frame hands on.",
        unit="samples",
    )  # fmt: skip
    loss_in_last_frame: bool = key(
        False, "Whether F_l is measured in the last frame, too, where nothing depends on it."
    )
    test_images: Annotated[int, Field(ge=0)] = key(
        0, "How many test images evaluate a model; 0: all of them.", unit="images", paper="D11"
    )
    trace: bool = key(False, "Whether it is recorded how each set came about, of schedulers that search.")
