"""The studies that are repeated with one command: which runs they consist of, and what is claimed about them."""

from dataclasses import replace
from typing import Any

from fedteddi.results.cells import FewestRounds
from fedteddi.results.claims import Faster, First, MoreScheduled, MostAtTightest, SmallerLateDrop
from fedteddi.results.reproduction import Reproduction
from fedteddi.results.tables import Targets

RIVALS = ("fedcgd", "fed-cbs", "pure-drift", "power-of-choice", "random", "best-norm", "best-channel")

CIFAR10 = Reproduction(
    name="cifar10",
    title="The paper's CIFAR-10 study",
    schedulers=("fedteddi", *RIVALS),
    deadlines_s=(0.8, 1.0, 1.2),
    seeds=(0, 1, 2, 3, 4),
    targets={"balanced": [0.55, 0.60, 0.65], "global": [0.65, 0.70, 0.75]},
    claims=(
        Faster("random", "58.4 % faster", target=0.75, deadline_s=1.2),
        Faster("fedcgd", "11.1 % faster", target=0.75, deadline_s=1.2),
        Faster("pure-drift", "38.5 % faster (deadline and target not stated)"),
        First("speed", RIVALS, "figures 3 and 5"),
        First("final accuracy", RIVALS, "figures 3 and 5"),
        MostAtTightest("mean accuracy over the frame", RIVALS, "figures 3 and 5"),
        MostAtTightest("final accuracy", RIVALS, "figures 3 and 5"),
        MoreScheduled("with new classes", "random", "figure 4"),
        MoreScheduled("with new classes", "best-channel", "figure 4"),
        MoreScheduled("with only old classes", "pure-drift", "figure 4"),
    ),
    # Everything is tried once, in less than ten minutes on two cores. Judging 1,000 images costs as much there as
    # 22 local steps, so that the models are judged only at the start, half-way and at the end.
    quick={
        "rounds": [0, 6],
        "training__pretrain_epochs": 1,
        "training__local_steps": 2,
        "estimates__class_gradient_samples": 16,
        "evaluation__every": 3,
        "evaluation__test_images": 1000,
        "evaluation__loss_samples": 200,
    },
)
CIFAR100_NOTES = """\
Accuracies of frame 1 are over classes 0 to 39, of frame 2 over 0 to 49. Each frame has K rounds of its own, and rounds
count from its start. In frame 1 all rules start from the same pre-trained model, in frame 2 each from its own best
model of frame 1 (that of lowest loss on the clients' data), so that what was gained or lost in frame 1 is carried on.
*Speed to each level* is judged at every multiple of 5 % above all starts that one rule reaches with every seed. A *late
drop* is the best accuracy at any evaluation of the frame's rounds (the model that entered the frame does not count)
minus that at the frame's last round; a difference above zero means that FedTeddi drops less."""
CIFAR100_COPY = """\
The study uses classes 0 to 49 of CIFAR-100 only. The results committed with this project were made with a copy that
holds no others, so that pixels are normalised over its 25,000 training images instead of 50,000."""

CIFAR100 = Reproduction(
    name="cifar100",
    title="The paper's CIFAR-100 study",
    schedulers=("fedteddi", *RIVALS),
    deadlines_s=(30.0,),
    seeds=(10, 11, 12, 13, 14),  # not those of cifar10, which may serve to tune a rule
    targets={"balanced": [0.40, 0.45, 0.50], "global": [0.40, 0.45, 0.50]},
    claims=(
        Faster("random", "49.2 % fewer rounds", target=0.50, frame=2, gain="fewer rounds"),
        Faster("fedcgd", "28.4 % fewer rounds", target=0.50, frame=2, gain="fewer rounds"),
        Faster("fed-cbs", "51.8 % fewer rounds", target=0.50, frame=2, gain="fewer rounds"),
        First("speed to each level", RIVALS, "figures 6 and 7", frames=(1, 2)),
        First("mean accuracy over the frame", RIVALS, "figures 6 and 7", frames=(1, 2)),
        First("final accuracy", RIVALS, "figures 6 and 7", frames=(1, 2)),
        SmallerLateDrop("random", "figure 6", frames=(1, 2)),
        SmallerLateDrop("pure-drift", "figure 6", frames=(1, 2)),
    ),
    # ResNet-18 learns from 25 images a second on a core, and a model has 45 MB: all rules take a few steps on a few
    # images in both frames, and a quarter of the band lets about five clients upload, whose models fit into memory.
    quick={
        "rounds": [0, 2, 2],
        "scenario__samples_per_client": 12,
        "training__pretrain_epochs": 1,
        "training__local_steps": 1,
        "training__batch_size": 4,
        "radio__total_hz": 5e6,
        "estimates__class_gradient_samples": 2,
        "estimates__class_norm_every": 2,
        "evaluation__every": 2,
        "evaluation__test_images": 100,
        "evaluation__loss_samples": 30,
    },
    notes=f"{CIFAR100_NOTES}\n{CIFAR100_COPY}",
)
PLUS = "fedteddi-plus"
# All rules of the paper, and those that search also with the better search.
OTHERS = ("fedteddi", *RIVALS, "fedteddi[search=refined]", "fedcgd[search=refined]")
AS_THEY_ARE = """\
The rows about the paper's rules as they are, without the better search, were added after the runs."""
CELLS = """\
A *cell* is a deadline, or frame, an accuracy and a target. It is *won* if fedteddi-plus needs fewer rounds than every
other rule, in the mean over the seeds that all of them have; *clearly*, if the 95 % intervals of the differences from
each of them, seed by seed, lie above zero. It is *open* where runs that never reach the target leave the order open.
The *best other rule* is the one that gets there with most seeds, and of several the one with the fewest rounds; of an
open cell, one that leaves it open. The claim holds if every cell that can be won is won clearly, and does not hold if
one is clearly not."""
UNTOUCHED = f"""\
{CELLS}
The targets were fixed before fedteddi-plus was developed, on seeds 0 and 1 only; nothing was decided on the seeds
here."""


def _report(base: Reproduction, others: tuple[str, ...], **changes: Any) -> Reproduction:
    """Return a study of fedteddi-plus against others that is like another study but for `changes`."""
    targets = changes.get("targets", base.targets)
    # What the better search adds to the paper's rules is not theirs: they are judged as they are, too.
    as_they_are = FewestRounds(PLUS, ("fedteddi", *RIVALS), targets, whom="every rule of the paper as it is")
    claims = (as_they_are,) if others == OTHERS else ()
    own: dict[str, Any] = {
        "of_experiment": base.experiment,
        "schedulers": (PLUS, *others),
        "claims": (FewestRounds(PLUS, others, targets), *claims),
        "ours": PLUS,
        "heading": "The claim",
    }
    return replace(base, **own | changes)


PLUS_CIFAR10 = _report(
    CIFAR10,
    OTHERS,
    name="plus-cifar10",
    title="FedTeddi-plus on CIFAR-10: against every rule of the paper, on untouched seeds",
    seeds=(10, 11, 12, 13, 14),
    notes=f"{UNTOUCHED} {AS_THEY_ARE}",
)
PLUS_CIFAR100 = _report(
    CIFAR100,
    OTHERS,
    name="plus-cifar100",
    title="FedTeddi-plus on CIFAR-100: against every rule of the paper, on untouched seeds",
    notes=f"""\
{UNTOUCHED} The rule was developed on CIFAR-10 and came here as it was. Frames are cells of their own, and rounds count
from a frame's start.
{CIFAR100_COPY}""",
)
FASHION_TARGETS: Targets = {"balanced": [0.65, 0.70, 0.75], "global": [0.75, 0.80, 0.85]}
PLUS_FASHION = _report(
    PLUS_CIFAR10,
    OTHERS,
    name="plus-fashion",
    of_experiment="fashion",
    title="FedTeddi-plus on the embedded Fashion-MNIST subset: against every rule of the paper",
    deadlines_s=(1.0,),
    targets=FASHION_TARGETS,
    quick={"rounds": [0, 5], "training__pretrain_epochs": 1, "training__local_steps": 2},
    notes=f"""\
{CELLS}
fedteddi-plus was developed on CIFAR-10, and nothing was decided on this experiment. The targets are those of the
table in the README's first run; they were set after the rule, before these runs. {AS_THEY_ARE}""",
)
ABLATION_NOTES = """\
One part of fedteddi-plus is changed at a time: the sum of absolute gaps in place of the Euclidean distance, the
greedy search in place of the refined one, a target that stays uniform, or everyone's mix, no weight on the set's
size, and a drift term as FedTeddi has it, only with λ0 = 0.2. These are the seeds on which the rule was developed;
two of them cannot judge small differences. A *cell* is a deadline, an accuracy and a target, and is *won* if the rule
as it is needs fewer rounds than every changed one."""
CHANGES = (
    f"{PLUS}[distance=absolute]",
    f"{PLUS}[search=greedy]",
    f"{PLUS}[uniform_last=1.0]",
    f"{PLUS}[uniform_first=0.0,uniform_last=0.0]",
    f"{PLUS}[size_weight=0.0]",
    f"{PLUS}[lambda0=0.2]",
)
PLUS_ABLATION = _report(
    CIFAR10,
    CHANGES,
    name="plus-ablation",
    title="What each part of fedteddi-plus adds, on CIFAR-10",
    deadlines_s=(0.8, 1.2),
    seeds=(0, 1),
    notes=ABLATION_NOTES,
    heading="Is the rule as it is ahead of every change?",
)
REPRODUCTIONS = {
    study.name: study
    for study in (CIFAR10, CIFAR100, PLUS_CIFAR10, PLUS_CIFAR100, PLUS_FASHION, PLUS_ABLATION)
}
