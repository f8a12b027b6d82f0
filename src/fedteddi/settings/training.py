"""The section [training]: what clients do with their data."""

from typing import Annotated, Any, Literal

from pydantic import Field

from fedteddi.settings.key import Count, NotNegative, Positive, Section, key


class TrainingSettings(Section):
    """Local training, and the pre-training that stands for frame 0."""

    model: str = key(
        "small-cnn",
        "The model that is trained.",
        paper="a CNN (paper-cnn) on CIFAR-10 and ResNet-18 (resnet18) on CIFAR-100, both with GroupNorm;"
        ' docs/paper.md, "The paper\'s setting"',
        named="models",
    )
    local_training: str = key(
        "sgd",
        "What a client's steps follow: the loss's gradient, or a rule such as FedProx.",
        paper="sgd",
        named="local-training",
    )
    local_training_options: dict[str, Any] = key({}, "Options of that rule, such as mu = 0.1 of fedprox.")
    local_steps: Count = key(
        10,
        "τ: SGD steps that each client makes in a round.",
        unit="steps",
        paper='open; docs/paper.md, "The paper\'s setting", takes 10 (CIFAR-10) and 5 (CIFAR-100)',
    )
    batch_size: Annotated[int, Field(ge=2)] = key(
        32, "b: samples in a local step, drawn without replacement.", unit="samples", paper="32"
    )
    learning_rate: Positive = key(0.01, "η of the first round.", paper="0.01")
    decay: Annotated[float, Field(gt=0, le=1)] = key(
        0.9992,
        "What the learning rate is multiplied with after each round; it is never reset.",
        paper="0.9992",
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = key(
        0.5, "Momentum of local SGD; it begins at zero in each round.", paper="0.5"
    )
    augment: Literal["flip", "crop-flip", "none"] = key(
        "none",
        "How training images are varied: flips; flips and crops of four pixels over black; or not at all.",
        paper='open; docs/paper.md, "The paper\'s setting", takes flip',
    )
    head: Literal["all", "expanding"] = key(
        "all", "Whether the model has all outputs at once, or they open as their classes appear.", paper="D10"
    )
    precision: Literal["float32", "tf32", "bf16"] = key(
        "float32", "Precision of matrix products on a GPU; a CPU computes in float32 whatever is set."
    )
    pretrain_data: Literal["classes", "held"] = key(
        "classes",
        "What the first model is pre-trained on: all training images of frame 0's classes, or those that clients hold.",
        paper='"pre-trained on classes 0–5"; docs/paper.md, "The paper\'s setting"',
    )
    pretrain_epochs: Annotated[int, Field(ge=0)] = key(
        10,
        "How long the first model is trained centrally; 0: not at all, the run begins with a fresh model.",
        unit="epochs",
    )
    pretrain_learning_rate: Positive = key(
        0.02, "Learning rate of pre-training; it falls to 0 along a cosine."
    )
    pretrain_momentum: Annotated[float, Field(ge=0, lt=1)] = key(0.9, "Momentum of pre-training.")
    pretrain_weight_decay: NotNegative = key(5e-4, "Weight decay of pre-training.")
    pretrain_batch_size: Count = key(128, "Samples in a step of pre-training.", unit="samples")
