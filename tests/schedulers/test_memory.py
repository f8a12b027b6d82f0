"""What a rule remembers: a plain value that survives being written; and rules that remember elsewhere are found."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedteddi import InputError, RoundView, Schedule, check_scheduler, make_scheduler, scheduler_names
from fedteddi.schedulers.admission import fill_band
from fedteddi.schedulers.made_rounds import following
from fedteddi.schedulers.memory import NotPlainError, as_json, copied, from_json
from fedteddi.schedulers.schedule import checked_choice, choice_of, first_state
from fedteddi.schedulers.trial import keeps_no_memory_in_itself, refuse_own_memory, resumes, trial_round

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | arrays.arrays(
        st.sampled_from([np.int64, np.float32, np.float64, np.bool_, np.complex128]),
        arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
        elements={"allow_nan": False},
    )
    | st.integers(-100, 100).map(np.int64)
    | st.floats(0, 1).map(np.float64)
)
STATES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.integers() | st.text() | st.none(), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Equal in value and in type, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(state=STATES)
def test_a_state_is_read_as_it_was_written(state: Any) -> None:
    assert same(from_json(json.loads(json.dumps(as_json(copied(state))))), state)


def test_a_copy_shares_nothing_not_even_with_itself() -> None:
    """What is one array in two places is two after a checkpoint, and must be two before it as well."""
    once = np.zeros(2)
    state = copied({"a": once, "b": [once]})
    state["a"] += 1
    assert state["b"][0].tolist() == [0, 0]
    assert once.tolist() == [0, 0]
    back = from_json(as_json(state))
    back["a"] += 1  # what is read can be written to, like what was made
    assert back["a"].tolist() == [2, 2]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({1, 2}, "state is a set: a state consists of None, bool"),
        ({"ages": [object()]}, r"state\['ages'\]\[0\] is a object"),
        ({(1, 2): 3}, "state has a tuple as a key"),
        (np.array([None]), "state is a ndarray"),
        (np.random.default_rng(0), "state is a Generator"),
    ],
)
def test_what_a_checkpoint_could_not_hold_is_refused(state: Any, message: str) -> None:
    with pytest.raises(NotPlainError, match=message):
        copied(state)


class Honest:
    """Oldest first, the ages in its state."""

    name = "honest"

    def initial_state(self, num_clients: int) -> Any:
        return [0] * num_clients

    def select(self, view: RoundView, rng: np.random.Generator, state: Any) -> Any:
        state = list(state)
        schedule = oldest_first(view, rng, [state[n] for n in view.client_id])
        state = [age + 1 for age in state]
        for n in schedule.clients:
            state[view.client_id[n]] = 0
        return schedule, state


def oldest_first(view: RoundView, rng: np.random.Generator, age: Any) -> Schedule:
    order = np.lexsort((rng.random(view.num_clients), -np.array(age)))
    return fill_band(view, order[np.isin(order, view.schedulable)])


class InSelf:
    name = "in-self"

    def __init__(self) -> None:
        self.age: dict[int, int] = {}

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        ids = view.client_id.tolist()
        schedule = oldest_first(view, rng, [self.age.get(n, 0) for n in ids])
        for place, n in enumerate(ids):
            self.age[n] = 0 if place in schedule.clients else self.age.get(n, 0) + 1
        return schedule


class InClass(InSelf):
    name = "in-class"
    age: dict[int, int] = {}  # noqa: RUF012

    def __init__(self) -> None:
        pass


class InSlots:
    __slots__ = ("calls",)
    name = "in-slots"

    def __init__(self) -> None:
        self.calls = 0

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        self.calls += 1
        return oldest_first(view, rng, np.zeros(view.num_clients))


AGE: dict[int, int] = {}


class InModule:
    name = "in-module"

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        AGE[len(AGE)] = 0
        return oldest_first(view, rng, np.zeros(view.num_clients))


def hidden() -> list[int]:
    """Memory that no attribute leads to."""
    return AGES_ELSEWHERE["ages"]


AGES_ELSEWHERE: dict[str, list[int]] = {"ages": [0] * 100}


class Hidden:
    """Remembers behind a function: only its behaviour tells."""

    name = "hidden"

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        ages = hidden()
        schedule = oldest_first(view, rng, [ages[n] for n in view.client_id])
        for n in range(100):
            ages[n] += 1
        for n in schedule.clients:
            ages[view.client_id[n]] = 0
        return schedule


class StateAndSelf(Honest):
    """Has a state, but ranks by what it keeps beside it."""

    name = "state-and-self"

    def __init__(self) -> None:
        self.last: Any = None

    def select(self, view: RoundView, rng: np.random.Generator, state: Any) -> Any:
        self.last = state if self.last is None else [age + 1 for age in self.last]
        return super().select(view, rng, self.last)


def in_closure() -> Any:
    calls = [0]

    def select(view: RoundView, rng: np.random.Generator) -> Schedule:
        calls[0] += 1
        return oldest_first(view, rng, np.zeros(view.num_clients))

    return make_scheduler(select)


CULPRITS = {
    "self": (InSelf, r"self\.age changed"),
    "class": (InClass, r"InClass\.age changed"),
    "slots": (InSlots, r"self\.calls changed"),
    "module": (InModule, "AGE changed"),
    "hidden": (Hidden, "when the same rounds were played again"),
    "beside its state": (StateAndSelf, r"self\.last changed"),
    "closure": (in_closure, "calls changed"),
}


@pytest.mark.parametrize("place", CULPRITS)
def test_memory_outside_the_state_is_found_and_refused(place: str) -> None:
    make, where = CULPRITS[place]
    assert "keeps no memory in itself" in [b.law for b in check_scheduler(make(), rounds=10)]
    with pytest.raises(InputError, match=rf"mine\.py:Mine: .*{where}.*initial_state\(num_clients\)"):
        refuse_own_memory(make(), "mine.py:Mine", 6, 3)


@pytest.mark.parametrize("name", scheduler_names())
@pytest.mark.parametrize(("clients", "classes"), [(1, 1), (2, 3), (8, 10)])
def test_no_rule_of_ours_is_suspected(name: str, clients: int, classes: int) -> None:
    refuse_own_memory(make_scheduler(name), name, clients, classes)


def test_an_honest_rule_with_memory_keeps_the_laws() -> None:
    assert check_scheduler(Honest(), rounds=15) == []
    refuse_own_memory(Honest(), "mine.py:Honest", 6, 3)


def test_a_trial_lets_memory_show() -> None:
    """Everyone can upload, but not all at once; somebody does not report; only what the rule asks for is told."""
    for clients in (2, 6, 30):
        views = following(trial_round(clients, 4))
        assert all(len(view.schedulable) == view.num_clients for view in views)
        assert views[0].needed_hz.sum() > views[0].total_hz
        assert {view.num_clients for view in views} == {clients, clients - 1}
    seen: list[RoundView] = []

    class Asks:
        name = "asks"
        needs = frozenset({"loss"})

        def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:  # noqa: ARG002
            seen.append(view)
            return Schedule(clients=(), bandwidth_hz=())

    with pytest.raises(InputError, match="seen changed"):
        refuse_own_memory(Asks(), "x", 6, 3)
    assert all(view.loss is not None and view.update_norm is view.update_sketch is None for view in seen)


class Anchored:
    """Begins with the client of the round it saw first: used once, it plays the same rounds alike ever after."""

    name = "anchored"
    first: int | None = None

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:  # noqa: ARG002
        self.first = view.round if self.first is None else self.first
        return fill_band(view, np.roll(view.schedulable, self.first))


def test_resuming_is_tried_with_a_fresh_rule() -> None:
    view = trial_round(6, 3)
    assert list(resumes(Anchored(), view)) != []
    assert list(resumes(Honest(), view)) == []
    assert list(keeps_no_memory_in_itself(Honest(), view)) == []
    assert "after it was resumed" in next(resumes(InSelf(), view))


def test_the_state_before_a_round_is_untouched_by_a_rule_that_changes_it_in_place() -> None:
    class InPlace:
        name = "in-place"

        def initial_state(self, num_clients: int) -> Any:
            return np.zeros(num_clients)

        def select(self, view: RoundView, rng: np.random.Generator, state: Any) -> Any:
            state += 1
            return oldest_first(view, rng, np.zeros(view.num_clients)), state

    rule, view = InPlace(), trial_round(6, 3)
    before = first_state(rule, 6)
    _, after = choice_of(rule, view, np.random.default_rng(0), before)
    assert (before.sum(), after.sum()) == (0, 6)
    assert check_scheduler(rule, rounds=10) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "return Schedule(clients=(), bandwidth_hz=())",
            r"returned Schedule: .*must return \(Schedule, state\)",
        ),
        ("return None, state", r"returned NoneType: .*must return \(Schedule, state\)"),
        ("return Schedule(clients=(), bandwidth_hz=()), {3}", "a state that cannot be kept: state is a set"),
        ("import sys; sys.exit('no')", r"called sys\.exit\(no\) \(mine\.py, line 5\)"),
        ("return np.zeros(3).reshape(7)", r"raised ValueError: cannot reshape.* \(mine\.py, line 5\)"),
        (
            "return Schedule(clients=[[1]], bandwidth_hz=[1]), state",
            r"raised TypeError.* \(mine\.py, line 5\)",
        ),
        (
            "return Schedule(clients=[99], bandwidth_hz=[1]), state",
            r"\(mine\.py\) gave an impossible schedule",
        ),
    ],
)
def test_a_wrong_answer_is_one_sentence_with_the_file(tmp_path: Path, body: str, message: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import numpy as np\nfrom fedteddi import Schedule\nclass Mine:\n    name = 'mine'\n"
        f"    def select(self, view, rng, state): {body}\n"
        "    def initial_state(self, num_clients): return 0\n"
    )
    rule, view = make_scheduler(f"{file}:Mine"), trial_round(6, 3)
    with pytest.raises(InputError, match=message) as caught:
        checked_choice(rule, view, np.random.default_rng(0), first_state(rule, 6))
    assert "\n" not in str(caught.value)
    assert "fedteddi check" in str(caught.value)


def test_a_select_with_too_few_arguments_is_blamed_on_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("class Mine:\n    name = 'mine'\n    def select(self, view): ...\n")
    with pytest.raises(InputError, match=r"takes 2 positional arguments but 3 were given \(mine\.py\)"):
        checked_choice(make_scheduler(f"{file}:Mine"), trial_round(6, 3), np.random.default_rng(0))
