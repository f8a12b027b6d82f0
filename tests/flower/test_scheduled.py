"""A scheduler in somebody else's Flower app: real strategies, messages and mods, carried by a Grid in memory."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedProx,
    FedTrimmedAvg,
    Strategy,
)
from flwr.supercore.task_identity import TaskIdentity
from torch.utils.data import DataLoader, TensorDataset

from fedteddi import InputError, RoundView, Schedule
from fedteddi.flower import Scheduled, report_first
from fedteddi.flower.labels import labels_of_batch
from fedteddi.flower.mod import KEPT
from fedteddi.flower.told import TOLD
from memory_nodes import MemoryNodes, first_arrays, make_app, weights_of

HOLDS = [[0], [1], [2], [0, 1], [0, 2], [1, 2]]


@pytest.fixture(autouse=True)
def _in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages can be made only inside a run; Flower's engines say which one it is."""
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def played(
    scheduled: Strategy, grid: MemoryNodes, rounds: int = 1, timeout: float = 1.0
) -> tuple[np.ndarray, Any]:
    result = scheduled.start(grid, first_arrays(), num_rounds=rounds, timeout=timeout)
    return weights_of(result.arrays) if "w" in result.arrays else np.zeros(3), result


def picking(*clients: int) -> Callable[[RoundView, np.random.Generator], Schedule]:
    """A rule that schedules these, if they are there."""

    def chosen(view: RoundView, rng: np.random.Generator) -> Schedule:
        del rng
        there = [i for i, client in enumerate(view.client_id) if client in clients and view.needed_hz[i] <= 1]
        return Schedule(clients=tuple(there), bandwidth_hz=(1.0,) * len(there))

    return chosen


@pytest.mark.parametrize(
    "make",
    [
        FedAvg,
        FedAvgM,
        FedAdam,
        FedTrimmedAvg,
        partial(FedProx, proximal_mu=0.1),
        lambda: DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.0, 5.0, 6),
    ],
)
def test_where_all_upload_the_strategy_does_what_it_does_alone(make: Callable[[], Strategy]) -> None:
    alone, _ = played(make(), MemoryNodes(make_app(HOLDS, mods=()), 6), rounds=3)
    with_all, result = played(Scheduled(make(), uploads=6), MemoryNodes(make_app(HOLDS), 6), rounds=3)
    assert np.abs(alone).max() > 0
    assert with_all == pytest.approx(alone, rel=1e-5)
    assert len(result.train_metrics_clientapp) == len(result.evaluate_metrics_clientapp) == 3


def test_only_the_scheduled_upload_and_the_strategy_weights_them() -> None:
    """Clients 1 (10 samples, w = 2) and 3 (20 samples, w = 4): (10·2 + 20·4) / 30 = 10/3; loss (10·1 + 20·3) / 30."""
    grid = MemoryNodes(make_app(HOLDS), 6)
    scheduled = Scheduled(FedAvg(), picking(1, 3), uploads=2)
    weights, result = played(scheduled, grid)
    assert weights == pytest.approx([10 / 3] * 3, rel=1e-6)
    assert result.train_metrics_clientapp[1]["train_loss"] == pytest.approx(7 / 3)
    assert sorted(grid.asked("report")) == [0, 1, 2, 3, 4, 5]
    assert sorted(grid.asked("upload")) == [1, 3]
    (done,) = scheduled.rounds
    assert set(done.scheduled) == set(done.uploaded) == {101, 103}
    assert done.failures == {}
    # Three float32 travel as an .npy file of 140 bytes; a report has none of them.
    assert done.upload_bytes > 2 * 140
    for node, context in grid.contexts.items():  # who was not asked keeps its arrays; who was has sent them
        assert (KEPT in context.state) == (node not in (101, 103))
        assert context.state["trained"]["times"] == 1


class Seeing(FedAvg):
    """Keeps what it is given to aggregate."""

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        self.given = list(replies)
        return super().aggregate_train(server_round, self.given)


@pytest.mark.parametrize("select_first", [False, True])
def test_a_strategy_is_given_the_apps_own_answer(select_first: bool) -> None:
    """The same records, in the same order, under the node that sent them; nothing of ours."""
    strategy = Seeing()
    played(Scheduled(strategy, picking(2), select_first=select_first), MemoryNodes(make_app(HOLDS), 6))
    (reply,) = strategy.given
    assert reply.metadata.src_node_id == 102
    assert list(reply.content) == ["metrics", "arrays"]
    assert dict(reply.content["metrics"]) == {"train_loss": 2.0, "num-examples": 10}


def test_evaluation_passes_through_untouched() -> None:
    grid = MemoryNodes(make_app(HOLDS), 6)
    _, result = played(Scheduled(FedAvg(), uploads=1), grid)
    assert sorted(grid.asked("evaluate")) == [0, 1, 2, 3, 4, 5]
    assert result.evaluate_metrics_clientapp[1]["acc"] == pytest.approx(2.5)


def test_the_default_rule_balances_classes_with_what_it_may_upload() -> None:
    """At most two: of these nodes only 0 and 5, 1 and 4, or 2 and 3 hold all three classes alike."""
    for seed in range(5):
        scheduled = Scheduled(FedAvg(), uploads=2, seed=seed)
        played(scheduled, MemoryNodes(make_app([[0], [1], [2], [0, 1, 2], [0, 1, 2], [0]]), 6))
        assert set(scheduled.rounds[0].scheduled) <= {103, 104}


def test_nodes_that_fail_cost_nobody_else_the_round() -> None:
    """Client 0's app raises, 1 is silent, 2 restarts in between, 3 is gone at the upload, 4 holds others: 5 is left."""

    def broken(node: int, phase: str) -> Any:
        if (node, phase) == (102, "upload"):
            grid.connect(102, 2)  # with an empty state
        if (node, phase) == (104, "upload"):
            grid.contexts[104].state[KEPT]["tag"] = "an earlier round"
        faults = {(100, "report"): 2, (101, "report"): "silent", (103, "upload"): "gone"}
        return faults.get((node, phase))

    grid, strategy = MemoryNodes(make_app(HOLDS), 6, broken), Seeing()
    scheduled = Scheduled(strategy, uploads=6, report_s=0.2)
    weights, _ = played(scheduled, grid)
    assert weights == pytest.approx([6.0] * 3)  # of client 5
    assert scheduled.rounds[0].uploaded == (105,)
    assert scheduled.rounds[0].failures == {
        100: "ValueError: broken",
        101: "no answer within 0.2 s",
        102: "it holds no trained arrays: it was restarted, or has sent them",
        103: "it is gone",
        104: "it holds the arrays of another round",
    }
    # The strategy hears of those that answered with an error or a refusal, as it would without us.
    assert sorted(m.metadata.src_node_id for m in strategy.given if m.has_error()) == [100, 102, 104]


def test_a_round_in_which_nothing_arrives_keeps_the_model() -> None:
    grid = MemoryNodes(make_app(HOLDS), 6, lambda _, phase: "silent" if phase == "upload" else None)
    weights, result = played(Scheduled(FedAdam(), uploads=2, upload_s=0.1), grid, rounds=2)
    assert (weights == 0).all()
    assert result.train_metrics_clientapp == {}


GOOD = {"classes": [0], "counts": [10]}


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (GOOD | {"counts": [-1]}, "not whole numbers"),
        (GOOD | {"counts": [10.5]}, "not whole numbers"),
        (GOOD | {"classes": [10**9]}, "not whole numbers"),
        (GOOD | {"counts": "many"}, "not whole numbers"),
        ({"classes": [0, 0], "counts": [1, 1]}, "do not belong together"),
        ({"classes": [0], "counts": [0]}, "all 0"),
        (GOOD | {"compute_s": float("nan")}, "compute_s"),
        (GOOD | {"compute_s": "soon"}, "compute_s"),
        (GOOD | {"channel_gain": -1.0}, "channel_gain"),
        (GOOD | {"channel_gain": float("inf")}, "channel_gain"),
        ({"classes": [7], "counts": [1]}, "beyond num_classes=3"),
    ],
)
def test_reports_that_cannot_be_true_cost_their_sender_the_round(told: dict[str, Any], why: str) -> None:
    sent = RecordDict({"metrics": MetricRecord({"num-examples": 10}), TOLD: ConfigRecord(told)})
    grid = MemoryNodes(
        make_app(HOLDS), 6, lambda node, phase: sent if (node, phase) == (100, "report") else None
    )
    scheduled = Scheduled(FedAvg(), uploads=6, num_classes=3)
    played(scheduled, grid)
    assert why in scheduled.rounds[0].failures[100]
    assert set(scheduled.rounds[0].uploaded) == {101, 102, 103, 104, 105}


def test_select_first_trains_only_whom_it_schedules() -> None:
    """Class counts are asked once, without training; later rounds ask the scheduled only."""
    grid = MemoryNodes(make_app(HOLDS), 6)
    scheduled = Scheduled(FedAvg(), picking(1, 3), select_first=True)
    weights, _ = played(scheduled, grid, rounds=2)
    assert weights == pytest.approx([20 / 3] * 3)  # 10/3 a round, as above
    assert sorted(grid.asked("labels")) == [0, 1, 2, 3, 4, 5]
    assert sorted(grid.asked("train")) == [1, 1, 3, 3]
    for number in range(6):
        state = grid.contexts[100 + number].state
        assert ("trained" in state) == (number in (1, 3))
        assert KEPT not in state
    counts = [dict(scheduled._last.nodes[100 + n].told.counts) for n in range(6)]  # type: ignore[union-attr]
    assert counts == [dict.fromkeys(held, 10) for held in HOLDS]


def test_class_counts_are_asked_again_where_that_is_wanted() -> None:
    grid = MemoryNodes(make_app(HOLDS), 6)
    played(Scheduled(FedAvg(), picking(1), select_first=True, labels_every=2), grid, rounds=3)
    # In round 3 what was said in round 1 is two rounds old; client 1 said so while it trained in round 2.
    assert sorted(grid.asked("labels")) == [0, 0, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_counting_without_training_draws_nothing() -> None:
    """A loader's order is drawn from PyTorch's generator: training after counting draws what it would have drawn."""
    drawn: list[torch.Tensor] = []

    def shuffling(mods: list[Any]) -> ClientApp:
        app = ClientApp(mods=mods)

        @app.train()
        def train(message: Message, _context: Any) -> Message:
            data = TensorDataset(torch.arange(20), torch.zeros(20, dtype=torch.long))
            drawn.extend(one for one, _ in DataLoader(data, batch_size=20, shuffle=True))
            content = {"metrics": MetricRecord({"num-examples": 20}), "arrays": first_arrays()}
            return Message(RecordDict(content), reply_to=message)

        return app

    one = partial(FedAvg, min_train_nodes=1, min_available_nodes=1, fraction_evaluate=0.0)
    torch.manual_seed(0)
    played(one(), MemoryNodes(shuffling([]), 1))
    torch.manual_seed(0)
    grid = MemoryNodes(shuffling([report_first]), 1)
    played(Scheduled(one(), select_first=True), grid)
    assert grid.asked("labels") == grid.asked("train") == [0]
    assert len(drawn) == 2
    assert torch.equal(*drawn)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ((torch.zeros(2, 3), torch.tensor([1, 2])), [1, 2]),
        ((torch.zeros(2, 3), torch.tensor([1, 2]), torch.tensor([70, 71])), [1, 2]),  # and where they lie
        ([torch.tensor([5, 6]), torch.tensor([1, 2])], [1, 2]),
        ({"img": torch.zeros(2, 3), "label": torch.tensor([1, 2])}, [1, 2]),
        ({"x": torch.zeros(2), "idx": torch.tensor([1, 2])}, None),
        ((torch.zeros(2, 3), torch.tensor([0.5, 1.0])), None),  # no classes
        ((torch.zeros(2, 3), torch.zeros(2, 4, dtype=torch.long)), None),  # not one each
        (torch.tensor([1, 2]), None),
    ],
)
def test_labels_are_found_in_the_usual_batches(batch: Any, expected: list[int] | None) -> None:
    found = labels_of_batch(batch)
    assert (None if found is None else found.tolist()) == expected


def test_labels_may_come_from_a_function() -> None:
    """Numbers or a histogram; the batches are not looked at then."""
    for labels in (lambda _: np.array([4, 4, 5]), lambda _: {4: 2, 5: 1}):
        for select_first in (False, True):
            mods = [partial(report_first, labels=labels)]
            scheduled = Scheduled(FedAvg(), uploads=6, select_first=select_first)
            played(scheduled, MemoryNodes(make_app(HOLDS, mods), 6))
            told = scheduled._last.nodes[100].told
            assert told is not None
            assert dict(told.counts) == {4: 2, 5: 1}


def test_an_app_without_labels_or_without_the_mod_is_told_what_to_do() -> None:
    app = ClientApp(mods=[report_first])

    @app.train()
    def train(message: Message, _context: Any) -> Message:
        content = RecordDict({"metrics": MetricRecord({"num-examples": 1}), "arrays": first_arrays()})
        return Message(content, reply_to=message)

    scheduled = Scheduled(FedAvg(fraction_evaluate=0.0), uploads=6)
    played(scheduled, MemoryNodes(app, 2))
    assert all(
        "partial(report_first, labels=my_labels)" in why for why in scheduled.rounds[0].failures.values()
    )
    with pytest.raises(InputError, match=r"ClientApp\(mods=\[report_first\]\)"):
        played(Scheduled(FedAvg()), MemoryNodes(make_app(HOLDS, mods=()), 3))


def test_a_node_without_the_mod_is_left_out_of_the_others_round() -> None:
    plain = RecordDict({"metrics": MetricRecord({"num-examples": 9}), "arrays": first_arrays()})
    grid = MemoryNodes(make_app(HOLDS), 6, lambda node, _: plain if node == 103 else None)
    scheduled = Scheduled(FedAvg(fraction_evaluate=0.0), uploads=6)
    played(scheduled, grid)
    assert "no report_first" in scheduled.rounds[0].failures[103]
    assert len(scheduled.rounds[0].uploaded) == 5


def test_rules_that_want_losses_or_update_norms_get_them() -> None:
    """Node n's loss is n, and its update (n + 1)·√3: both rules want the highest."""
    for rule in ("best-norm", "power-of-choice"):
        scheduled = Scheduled(FedAvg(), rule, uploads=2)
        played(scheduled, MemoryNodes(make_app(HOLDS), 6))
        assert set(scheduled.rounds[0].scheduled) == {104, 105}, rule
        told = scheduled._last.nodes[103].told
        if rule == "best-norm":
            assert told is not None
            assert told.update_norm == pytest.approx(4 * 3**0.5)
    scheduled = Scheduled(FedAvg(), "power-of-choice", loss_key="my_loss")
    played(scheduled, MemoryNodes(make_app(HOLDS), 6))
    assert all("loss_key" in why for why in scheduled.rounds[0].failures.values())


def test_nodes_may_rest_after_an_upload() -> None:
    """Two of six upload in a round, and sit out two rounds: everyone is heard once in three rounds, and again."""
    scheduled = Scheduled(FedAvg(), uploads=2, rest=2)
    played(scheduled, MemoryNodes(make_app(HOLDS), 6), rounds=6)
    for some in (scheduled.rounds[:3], scheduled.rounds[3:]):
        assert sorted(node for one in some for node in one.uploaded) == [100, 101, 102, 103, 104, 105]
    # With one node that rests, there would be nobody: it uploads all the same.
    alone = Scheduled(FedAvg(min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=1), rest=5)
    played(alone, MemoryNodes(make_app(HOLDS), 1), rounds=3)
    assert [len(one.uploaded) for one in alone.rounds] == [1, 1, 1]


def test_frames_make_changed_nodes_drift() -> None:
    """Client 2 holds class 3 from round 3 on: with frames of two rounds, pure-drift picks it in round 3."""
    holds = [list(held) for held in HOLDS]
    grid = MemoryNodes(make_app(holds), 6)

    class Changing(FedAvg):
        def configure_train(self, server_round: int, *args: Any) -> Iterable[Message]:
            if server_round == 3:
                holds[2] = [3]
            return super().configure_train(server_round, *args)

    scheduled = Scheduled(Changing(), "pure-drift", uploads=1, frame_rounds=2)
    played(scheduled, grid, rounds=3)
    assert scheduled.rounds[2].scheduled == (102,)


def test_rules_with_memory_follow_nodes_that_come_and_go() -> None:
    """round-robin has everyone once in three rounds of two; then node 105 leaves and another takes its number."""
    grid = MemoryNodes(make_app([*HOLDS, [0]]), 6)

    class Moving(FedAvg):
        def configure_train(self, server_round: int, *args: Any) -> Iterable[Message]:
            if server_round == 4:
                del grid.contexts[105]
                grid.connect(106, 6)
            return super().configure_train(server_round, *args)

    scheduled = Scheduled(Moving(), "round-robin", uploads=2)
    played(scheduled, grid, rounds=6)
    first = [node for one in scheduled.rounds[:3] for node in one.scheduled]
    assert sorted(first) == [100, 101, 102, 103, 104, 105]
    then = [node for one in scheduled.rounds[3:] for node in one.scheduled]
    assert sorted(then) == [100, 101, 102, 103, 104, 106]
    assert scheduled._last.nodes[106].client_id < 6


class OwnLoop(FedAvg):
    """A strategy with a `start` and attributes of its own, as in Flower's advanced-pytorch example."""

    def start(self, grid: Any, initial_arrays: ArrayRecord, num_rounds: int = 3, **_more: Any) -> Any:  # type: ignore[override]
        arrays = initial_arrays
        for number in range(1, num_rounds + 1):
            replies = grid.send_and_receive(self.configure_train(number, arrays, ConfigRecord(), grid))
            arrays = self.aggregate_train(number, replies)[0] or arrays
        return self.note, arrays


def test_a_strategy_keeps_its_own_start_and_attributes() -> None:
    scheduled = Scheduled(OwnLoop(), picking(2))
    scheduled.note = "mine"
    note, arrays = scheduled.start(MemoryNodes(make_app(HOLDS), 6), first_arrays(), num_rounds=2)  # type: ignore[misc]
    assert (note, scheduled.strategy.note) == ("mine", "mine")  # type: ignore[attr-defined]
    assert weights_of(arrays) == pytest.approx([6.0] * 3)
    assert scheduled.fraction_train == 1.0


def test_a_wrapper_around_it_is_refused() -> None:
    inside_out = DifferentialPrivacyServerSideFixedClipping(Scheduled(FedAvg()), 0.0, 5.0, 6)
    with pytest.raises(InputError, match="outermost"):
        played(inside_out, MemoryNodes(make_app(HOLDS), 6))


def test_whom_the_strategy_samples_is_whom_the_scheduler_sees() -> None:
    grid = MemoryNodes(make_app(HOLDS), 6)
    scheduled = Scheduled(FedAvg(fraction_train=0.5), uploads=1)
    played(scheduled, grid, rounds=2)
    assert [len(one.reported) for one in scheduled.rounds] == [3, 3]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"scheduler": "divfl"}, "update_sketch"),
        ({"scheduler": "best-norm", "select_first": True}, "select_first=False"),
        ({"scheduler": "fedtedi"}, "did you mean"),
        ({"uploads": 2.5}, "uploads=2.5"),
        ({"uploads": 0}, "uploads=0"),
        ({"uploads": 2, "band_hz": 1e6, "deadline_s": 1.0}, "one of them"),
        ({"band_hz": 1e6}, "needs deadline_s"),
        ({"rate_bps": 1e6}, "without deadline_s"),
        ({"labels_every": 3}, "select_first"),
        ({"rest": -1}, "rest=-1"),
        ({"frame_rounds": 0}, "frame_rounds=0"),
        ({"report_s": 0}, "report_s=0"),
    ],
)
def test_what_cannot_work_is_said_at_once(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Scheduled(FedAvg(), **changes)


def test_arrays_of_other_kinds_of_records_come_back_whole() -> None:
    """Two ArrayRecords and a ConfigRecord with bytes: all of it is kept, and sent when asked."""
    app = ClientApp(mods=[partial(report_first, labels=lambda _: [0, 1])])

    @app.train()
    def train(message: Message, _context: Any) -> Message:
        content = RecordDict(
            {
                "b": ArrayRecord({"y": Array(np.arange(2))}),
                "note": ConfigRecord({"blob": b"\x00\x01"}),
                "metrics": MetricRecord({"num-examples": 3}),
                "a": ArrayRecord({"x": Array(np.eye(2))}),
            }
        )
        return Message(content, reply_to=message)

    class Last(Seeing):
        def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[None, None]:
            del server_round
            self.given = list(replies)
            return None, None

    strategy = Last(fraction_evaluate=0.0)
    played(Scheduled(strategy, uploads=2), MemoryNodes(app, 2))
    content = strategy.given[0].content
    assert list(content) == ["b", "note", "metrics", "a"]
    assert content["note"]["blob"] == b"\x00\x01"
    assert (content["a"]["x"].numpy() == np.eye(2)).all()
