"""Names of Python objects: the same one for the same thing, another for another; options where they say all."""

import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedteddi import InputError, Settings
from fedteddi.aggregation import FedAvgM
from fedteddi.given import given_object, label_in, name_in_python, options_of
from fedteddi.learning.local_training import FedProx
from fedteddi.registry import named_part
from fedteddi.scenario.replay import keep_balanced
from fedteddi.schedulers.registry import make_scheduler, named_rule, rule_text
from fedteddi.schedulers.rules.fedteddi import FedTeddi
from fedteddi.schedulers.rules.random import Random
from fedteddi.wireless.channels import Rayleigh, Rician, Shadowing
from small_world import tiny_data, tiny_model


@dataclass(frozen=True)
class Loud:
    """A channel with two options."""

    level: float = 1.0
    kind: str = "x"

    def gains(self, positions_m: np.ndarray, draws: Any) -> np.ndarray:  # noqa: ARG002
        return np.full(len(positions_m), self.level)


class Hiding:
    """What it was made with is in no attribute of that name."""

    def __init__(self, level: float = 1.0) -> None:
        self._level = level


class Cell:
    """Stands for a class of a notebook's cell."""


def test_the_same_thing_keeps_its_name_and_another_gets_another() -> None:
    def make(number: int) -> Any:
        return lambda held: held[:number]

    one, other = make(1), make(2)
    name, second = name_in_python(one), name_in_python(other)
    assert name != second
    assert re.fullmatch(r"python:lambda@[0-9a-f]{8}", name)
    assert given_object(name) is one
    assert given_object(second) is other
    again = make(2)  # the same code over the same number
    assert name_in_python(again) == second
    assert given_object(second) is again
    low, high = Hiding(1.0), Hiding(2.0)
    names = [name_in_python(low), name_in_python(high)]
    assert len(set(names)) == 2
    assert [label_in(name) for name in names] == ["Hiding", "Hiding"]
    assert given_object(names[0]) is low
    assert name_in_python(Hiding(2.0)) == names[1]
    high._level = 3.0  # as a cache may be filled: it is still the one that was given
    assert name_in_python(high) != names[0]


def test_what_cannot_be_told_apart_by_content_is_numbered() -> None:
    def local() -> Any:
        class Local:
            pass

        return Local

    one, other = local(), local()
    assert (name_in_python(one), name_in_python(other)) == ("python:Local", "python:Local-2")
    assert name_in_python(one) == "python:Local"
    locked = [Hiding(), Hiding()]
    for each in locked:
        each.lock = threading.Lock()  # type: ignore[attr-defined]
    assert [name_in_python(each) for each in locked] == ["python:Hiding", "python:Hiding-2"]


def test_a_class_that_is_defined_anew_gives_its_name_to_its_successor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Cell()
    name = name_in_python(first)
    successor = type("Cell", (), {"__module__": __name__, "__qualname__": "Cell"})
    monkeypatch.setitem(globals(), "Cell", successor)
    second = successor()
    assert name_in_python(second) == name
    assert given_object(name) is second


def test_options_are_told_only_where_they_make_the_same_object() -> None:
    assert options_of(Loud(level=3.0)) == {"level": 3.0, "kind": "x"}
    assert options_of(Hiding()) is None

    class Grown(Hiding):
        def __init__(self, level: float = 1.0) -> None:
            super().__init__(level)
            self.level = level

    assert options_of(Grown(2.0)) == {"level": 2.0}
    assert named_part(Grown(2.0), "channels")[0].startswith("python:Grown")  # a local class: nobody finds it
    changed = Loud(level=3.0)
    object.__setattr__(changed, "more", 1)
    assert options_of(changed) is None
    assert options_of(Loud(level=np.zeros(2))) is None  # type: ignore[arg-type]


def test_objects_become_a_name_and_options_that_any_process_finds() -> None:
    changed = Settings().changed(
        scheduler=FedTeddi(search="refined"),
        radio__channel=Rician(k_db=3.0, shadowing_std_db=4.0),
        server__aggregation=FedAvgM(server_momentum=0.5),
        training__local_training=FedProx(mu=0.1),
        training__model=tiny_model,
        scenario__replay=keep_balanced,
        dataset=tiny_data,
    )
    assert (changed.scheduler, changed.scheduler_options) == ("fedteddi", {"search": "refined"})
    assert (changed.radio.channel, changed.radio.channel_options) == ("rician", {"k_db": 3.0})
    assert changed.radio.shadowing_std_db == 4.0  # an option that [radio] has itself
    assert (changed.server.aggregation, changed.server.aggregation_options) == (
        "fedavgm",
        {"server_momentum": 0.5},
    )
    assert changed.training.local_training_options == {"mu": 0.1}
    assert (changed.training.model, changed.scenario.replay) == ("small_world:tiny_model", "balanced")
    assert changed.dataset == "small_world:tiny_data"
    plain = changed.changed(radio__channel=Rayleigh(), server__aggregation="fedavg")
    assert plain.radio.channel_options == {}  # those of the other channel went with it
    said = Settings().changed(radio__channel=Shadowing(shadowing_std_db=4.0), radio__shadowing_std_db=6.0)
    assert said.radio.shadowing_std_db == 6.0
    assert named_part(Loud, "channels") == (f"{__name__}:Loud", None)
    assert named_part(Loud(level=2.0), "channels") == (f"{__name__}:Loud", {"level": 2.0})
    assert named_part(Hiding(7.0), "channels")[1] == {}


@pytest.mark.parametrize("value", [3, 0.5, None, [1], {"a": 1}, (1, 2)])
def test_what_is_no_part_is_refused_by_the_key(value: Any) -> None:
    with pytest.raises(InputError, match=r"^radio\.channel="):
        Settings().changed(radio__channel=value)


def test_a_key_that_names_no_part_takes_no_object() -> None:
    with pytest.raises(InputError, match=r"^radio\.deadline_s="):
        Settings().changed(radio__deadline_s=Loud())
    with pytest.raises(InputError, match="there is no section 'radioo'"):
        Settings().changed(radioo__deadline_s=Loud())


def test_rules_are_written_with_their_options_where_that_says_all() -> None:
    assert rule_text(Random(spare_band="share")) == "random[spare_band=share]"
    assert rule_text(FedTeddi(lambda0=4.0)) == "fedteddi[lambda0=4.0]"
    assert named_rule(FedTeddi(lambda0=4.0)).name == "fedteddi-lambda0-4.0"
    odd = Loud(kind="a,b=c")  # such a text would be read as two options
    assert rule_text(odd).startswith("python:Loud")
    assert make_scheduler("fedteddi", lambda0=4.0) == FedTeddi(lambda0=4.0)


def test_an_object_that_was_changed_since_has_another_name() -> None:
    """Resuming with it would play something else under the same name."""
    hiding = Hiding(1.0)
    first = name_in_python(hiding)
    assert name_in_python(hiding) == first
    hiding._level = 2.0
    assert name_in_python(hiding) != first
    hiding._level = 1.0
    assert name_in_python(hiding) == first


NAMED = """
import fedteddi.given as given
def pick(view, rng):
    return view in {"a", "b", "c", "d"}
print(given.name_in_python(lambda view: view in {"a", "b", "c", "d"}), given.code_of(pick))
"""


def test_the_order_of_a_set_is_no_part_of_a_name() -> None:
    """It follows the hash seed, another one in every process."""
    said = [
        subprocess.run(
            [sys.executable, "-c", NAMED],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    ]
    assert "python:lambda@" in said[0]
    assert said[0] == said[1]


def test_a_cell_that_is_not_filled_yet() -> None:
    def made() -> Any:
        def heard() -> Any:
            return later

        name = name_in_python(heard)
        later = 1
        return name, later

    assert made()[0].startswith("python:heard")
