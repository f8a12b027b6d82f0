"""The section [scenario]: which data lies where, and what arrives later."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from fedteddi.settings.key import Count, NotNegative, Positive, Section, key


class Arrival(Section):
    """New data at the start of one frame: who gets it, which classes, how many samples."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["classes"]}, {"required": ["mix"]}]})

    frame: Count = key(..., "l: the frame at whose start it arrives; frame 0 is where the clients begin.")
    clients: Annotated[int, Field(ge=1)] | list[int] = key(
        12, "Who gets it: how many clients, drawn at random, or a list of them.", paper="12 of 30"
    )
    classes: list[int] | None = key(
        None, "Its classes: one for each client, dealt in turn. Give either this or `mix`."
    )
    mix: list[NotNegative] | None = key(
        None, "Its class weights, the same for all of these clients. Give either this or `classes`."
    )
    samples: Count = key(
        60,
        "How many new samples each of these clients gets.",
        unit="samples",
        paper="375 (CIFAR-10), 150 (CIFAR-100): half of what a client stores",
    )
    forget: list[int] = key([], "Classes of which the same clients lose all old samples.")

    @model_validator(mode="after")
    def _one_of_two(self) -> "Arrival":
        if (self.classes is None) == (self.mix is None):
            raise ValueError(
                "give either classes (one for each client) or mix (class weights for all of them)"
            )
        return self


class ScenarioSettings(Section):
    """Which data lies where in frame 0, and what arrives later."""

    layout: Literal["paper-cifar10", "paper-cifar100", "classes", "dirichlet"] = key(
        "paper-cifar10",
        "Who holds what in frame 0: the paper's two layouts, which bring their arrivals along; a few classes for each"
        " client; or a class mix for each client from a Dirichlet distribution.",
        paper="paper-cifar10 and paper-cifar100 are its two studies",
    )
    clients: Count = key(30, "N: how many clients there are.", paper="30")
    samples_per_client: Count = key(
        120,
        "D_n: how many samples each client holds in frame 0, and the most that it can store afterwards.",
        unit="samples",
        paper="750 (CIFAR-10), 300 (CIFAR-100)",
    )
    classes_per_client: Count = key(2, "How many classes each client holds in frame 0, in equal parts.")
    alpha: Positive = key(
        0.5, "α of the Dirichlet distribution of class mixes: the smaller, the more unequal the clients."
    )
    class_weights: list[NotNegative] = key(
        [3, 3, 3, 1, 1, 1],
        "How common each class is in frame 0, class by class; 0, or left out at the end: it is not there yet.",
        paper="on CIFAR-10 classes 0–2 three times as common as 3–5",
    )
    arrivals: list[Arrival] = key(
        [], "What arrives later, beside what the layout brings: one [[scenario.arrivals]] table for each."
    )
    arrivals_trace: str = key(
        "", "A CSV file of further arrivals with the columns frame, client, class, samples; empty: none."
    )
    replay: str = key(
        "random",
        "What a client keeps of its old samples when its storage is full.",
        paper="random",
        named="replays",
    )
    overlap: bool = key(
        True,
        "Whether two clients may hold the same image where more are wanted than exist; false refuses such a scenario.",
        paper="its CIFAR-10 layout needs it: classes 0–2 have 5,000 images each, and 5,625 are dealt",
    )
    pooled: bool = key(
        False,
        "One client in place of all, with everything they hold; the bound `centralised` of `fedteddi compare` sets it.",
    )
