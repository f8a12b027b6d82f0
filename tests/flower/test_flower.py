"""Flower's two sides without its engines: real apps and messages, carried by a Grid in memory that can be broken."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedteddi import InputError, Settings, simulate
from fedteddi.flower import client_app, play, server
from fedteddi.flower.app import round_line
from fedteddi.flower.client import PARKED
from fedteddi.flower.device import Device, Holding, own_holding, read_secret, scenario_holding
from fedteddi.flower.records import refused, settings_of
from fedteddi.flower.server import FlowerFleet
from fedteddi.settings import on_fleet
from fedteddi.simulation.clients import Clients
from fedteddi.simulation.seed_world import SeedWorld
from memory_fleet import Break, MemoryGrid, head_settings, patient, scenario_plan
from small_world import tiny_data


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        *(
            (rule, {})
            for rule in ("fedteddi", "power-of-choice", "best-norm", "divfl", "random", "age-of-update")
        ),
        ("fedteddi", {"estimates__class_gradients": "sketch"}),
        ("random", {"server__aggregation": "target-weights"}),
    ],
)
def test_a_fleet_gives_the_simulators_results(rule: str, changes: dict[str, Any], tmp_path: Path) -> None:
    """The simulator counts class gradients as they are asked for, the fleet as they come: the same bits."""
    settings = patient(rounds=[1, 2], **changes)
    lines: list[str] = []
    mine = play(
        MemoryGrid(settings, tmp_path), settings.changed(scheduler=rule), say=lines.append, data=tiny_data()
    )
    theirs = simulate(on_fleet(settings), scheduler=rule, data=tiny_data())
    assert len(mine.records) == len(theirs.records) == 5
    for one, other in zip(mine.records, theirs.records, strict=True):
        assert one.clients == other.clients
        assert one.bandwidth_hz == pytest.approx(other.bandwidth_hz)
        assert one.class_accuracy == pytest.approx(other.class_accuracy, abs=0.051)
        assert one.class_gradient_bits == other.class_gradient_bits
        if one.class_norm is not None:
            assert one.class_norm == pytest.approx(other.class_norm, rel=1e-4)
        if one.gradient_std is not None:
            assert one.gradient_std == pytest.approx(other.gradient_std, rel=1e-4)
    assert "6 of 6 clients are there" in lines
    assert any(line.startswith("frame 1 round 2: scheduled ") and "MHz" in line for line in lines)


def test_a_fleets_scheduler_remembers_over_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's state is all there is of it: stopped after three rounds, resumed, it chooses as the simulator."""
    settings = patient(scheduler="age-of-update", rounds=[4, 3], radio__total_hz=4e3)
    monkeypatch.setattr("fedteddi.simulation.session.CHECKPOINT_EVERY_S", 0.0)
    alone = simulate(on_fleet(settings), data=tiny_data())

    def stop(line: str) -> None:
        if line.startswith("frame 0 round 3"):
            raise KeyboardInterrupt

    for say in (stop, lambda _: None):
        options = {"data": tiny_data(), "out": tmp_path / "run", "resume": True}
        with suppress(KeyboardInterrupt):
            record = play(MemoryGrid(settings, tmp_path), settings, say=say, **options)  # type: ignore[arg-type]
    assert [r.clients for r in record.records] == [r.clients for r in alone.records]
    assert len({n for r in record.records for n in r.clients}) > 3


def test_a_frame_without_rounds_is_asked_for_its_mixes(tmp_path: Path) -> None:
    """Else there would be no drift to see in the next frame."""
    settings = patient(rounds=[0, 1])
    mine = play(MemoryGrid(settings, tmp_path), settings, say=lambda _: None, data=tiny_data())
    theirs = simulate(on_fleet(settings), data=tiny_data())
    assert mine.records[-1].objective == pytest.approx(theirs.records[-1].objective, rel=1e-4)
    assert theirs.records[-1].objective["drift"] != 0


FAULTS = {
    "silent": "no answer within 60 s",
    "gone": "it is gone",
    1: "its app could not be loaded",
    2: "its app raised an error: ValueError: broken",
    5: "it is gone",
    77: "Flower's error 77",
}


@pytest.mark.parametrize("kind", ["report", "upload"])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.usefixtures("clock")
def test_who_fails_is_left_out_with_the_cause(fault: Any, kind: str, tmp_path: Path) -> None:
    name = {"report": "train.report", "upload": "query.upload"}[kind]
    settings = patient(rounds=[2], scheduler="random", radio__total_hz=1e9)
    grid = MemoryGrid(settings, tmp_path, lambda node, asked: fault if (node, asked) == (102, name) else None)
    record = play(grid, settings, say=lambda _: None, data=tiny_data())
    first, second = record.records[1:]
    assert first.failures == {"2": FAULTS[fault]}
    assert (2 in first.clients) is (kind == "upload")
    assert len(first.clients) == (6 if kind == "upload" else 5)
    assert first.class_accuracy != record.records[0].class_accuracy
    if fault == "gone":
        assert second.failures == {"2": "it is not connected"}
    assert f"client 2 failed: {FAULTS[fault]}" in round_line(first)


def upload(vector: np.ndarray) -> RecordDict:
    return RecordDict({"upload": ArrayRecord({"vector": Array(vector)})})


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("train.report", RecordDict()),
        ("train.report", RecordDict({"report": MetricRecord({"data_counts": [1.5, -1.0]})})),
        ("query.upload", RecordDict()),
        ("query.upload", upload(np.array(["a", "b"]))),
        ("query.upload", upload(np.zeros(5, dtype=">f4"))),  # another byte order, which torch does not know
        ("query.upload", RecordDict({"refused": MetricRecord()})),
    ],
)
def test_garbage_costs_its_sender_the_round(kind: str, sent: RecordDict, tmp_path: Path) -> None:
    settings = patient(rounds=[1], scheduler="random", radio__total_hz=1e9)
    grid = MemoryGrid(settings, tmp_path, lambda node, asked: sent if (node, asked) == (103, kind) else None)
    record = play(grid, settings, say=lambda _: None, data=tiny_data()).records[-1]
    assert list(record.failures) == ["3"]
    assert np.isfinite(record.balanced)


def test_pickled_arrays_are_not_unpickled(tmp_path: Path) -> None:
    """An array that claims to be numpy's but holds objects is refused by numpy itself."""
    import io
    import pickle

    class Bomb:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return Path.touch, (str(tmp_path / "boom"),)

    assert pickle.dumps(Bomb())
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
    bad = Array(dtype="float32", shape=(1,), stype="numpy.ndarray", data=buffer.getvalue())
    sent = RecordDict({"upload": ArrayRecord({"vector": bad})})
    settings = patient(rounds=[1], scheduler="random", radio__total_hz=1e9)
    kind = "query.upload"
    grid = MemoryGrid(settings, tmp_path, lambda node, asked: sent if (node, asked) == (103, kind) else None)
    record = play(grid, settings, say=lambda _: None, data=tiny_data()).records[-1]
    assert record.failures == {"3": "its upload cannot be read (ValueError)"}
    assert not (tmp_path / "boom").exists()


@pytest.mark.usefixtures("clock")
def test_all_gone_in_one_step_keeps_the_model_and_the_run_goes_on(tmp_path: Path) -> None:
    settings = patient(rounds=[3], scheduler="random", radio__total_hz=1e9)
    uploads: list[int] = []

    def broken(node: int, asked: str) -> str | None:
        uploads.extend([node] if asked == "query.upload" else [])
        return "silent" if asked == "query.upload" and 6 < len(uploads) <= 12 else None

    record = play(MemoryGrid(settings, tmp_path, broken), settings, say=lambda _: None, data=tiny_data())
    assert len(record.records[2].failures) == 6
    assert record.records[2].class_accuracy == record.records[1].class_accuracy
    assert record.records[3].failures == {}


def test_a_device_may_refuse_a_run(tmp_path: Path) -> None:
    def holding(settings: Settings, number: int) -> Holding:
        if number == 1 and not 0 < settings.privacy.epsilon <= 1:
            raise InputError(f"privacy.epsilon={settings.privacy.epsilon:g} is not what this device accepts")
        return Holding(tiny_data(), scenario_plan(settings))

    settings = patient(rounds=[2])
    grid = MemoryGrid(settings, tmp_path)
    grid.app = client_app(holding)
    run = play(grid, settings, say=lambda _: None, data=tiny_data())
    for record in run.records[1:]:
        assert record.failures["1"] == "it refused: privacy.epsilon=0 is not what this device accepts"
        assert 1 not in record.clients


def test_a_model_is_sent_once_and_only_for_its_round(tmp_path: Path) -> None:
    settings = patient(rounds=[1])
    grid = MemoryGrid(settings, tmp_path)
    context = grid.contexts[100]

    def ask(kind: str, content: RecordDict) -> RecordDict:
        message = Message(content, 100, kind)
        message.metadata.__dict__["_message_id"] = "m"
        return grid.app(message, context).content

    def upload(tag: str) -> RecordDict:
        return ask("query.upload", RecordDict({"asked": ConfigRecord({"tag": tag})}))

    weights = Device(settings, 0, Holding(tiny_data(), scenario_plan(settings))).runtime.engine.model.weights
    asked = {"tag": "t", "frame": 0, "round": 1, "learning_rate": 0.1, "needs": []}
    model = ArrayRecord({"vector": Array(weights.numpy())})
    assert "it holds no trained model" in str(upload("t")["refused"])
    told = ask("train.report", RecordDict({"asked": ConfigRecord(asked), "model": model}))
    assert sum(told.metric_records["report"]["data_counts"]) == 24
    assert "another round" in str(upload("other")["refused"])
    sent = upload("t").array_records["upload"]["vector"].numpy()
    assert sent.shape == tuple(weights.shape)
    assert not np.array_equal(sent, weights.numpy())
    assert PARKED not in context.state  # once sent, it is gone
    assert "it holds no trained model" in str(upload("t")["refused"])
    ask("train.report", RecordDict({"asked": ConfigRecord(asked), "model": model}))
    after = asked | {"samples": [1] * 5, "uploads_over": True}
    ask("query.class_gradients", RecordDict({"asked": ConfigRecord(after), "model": model}))
    assert PARKED not in context.state  # the uploads are over


@pytest.mark.usefixtures("clock")
def test_nodes_say_who_they_are(tmp_path: Path) -> None:
    """Numbers outside the fleet are ignored; a number taken twice stays with the first until that one is silent."""
    settings = patient(rounds=[1])
    deaf: list[int] = []
    broken: Break = lambda node, asked: "silent" if node in deaf and asked != "query.hello" else None  # noqa: E731
    grid = MemoryGrid(settings, tmp_path, broken)
    grid.connect(900, 77)
    grid.connect(901, 2)
    fleet = FlowerFleet(grid, settings, 6, say=lambda _: None)  # type: ignore[arg-type]
    fleet.wait_for_clients()
    assert fleet.nodes == {number: 100 + number for number in range(6)}
    deaf.append(102)
    clients = Clients(settings, scenario_plan(settings), SeedWorld(settings.seed, tiny_data()))
    assert set(fleet.reported_mixes(clients, 0)) == {0, 1, 3, 4, 5}
    assert set(fleet.reported_mixes(clients, 0)) == set(range(6))
    assert fleet.nodes[2] == 901
    deaf.clear()
    del grid.contexts[901]
    assert set(fleet.reported_mixes(clients, 0)) == set(range(6))  # the first one has its place again
    assert fleet.nodes[2] == 102


def test_a_node_that_never_says_hello_holds_nobody_up_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = patient(rounds=[2])
    monkeypatch.setattr(server, "HELLO_S", 0.5)
    grid = MemoryGrid(settings, tmp_path, lambda node, _: "silent" if node == 900 else None)
    grid.connect(900, 3)
    play(grid, settings, say=lambda _: None, data=tiny_data())
    asked = [m.metadata.message_type for m in grid.sent if m.metadata.dst_node_id == 900]
    assert asked == ["query.hello"]


BAD_MIXES = {"empty": [], "of one class": [1.0], "no distribution": [0.5] * 5}


@pytest.mark.parametrize("bad", BAD_MIXES)
def test_a_bad_mix_costs_nobody_else_anything(bad: str, tmp_path: Path) -> None:
    settings = patient(rounds=[0, 1])
    sent = RecordDict({"mix": MetricRecord({"mix": BAD_MIXES[bad]})})
    kind = "query.mix"
    same = int(np.flatnonzero(~scenario_plan(settings).new_classes(1))[0])  # its data does not change
    broken = (100 + same, kind)
    grid = MemoryGrid(settings, tmp_path, lambda *asked: sent if asked == broken else None)
    record = play(grid, settings, say=lambda _: None, data=tiny_data()).records[-1]
    assert list(record.failures) == [str(same)]
    assert record.failures[str(same)].startswith("class mix of frame 0: its class mix ")
    assert record.objective["drift"] != 0


def test_rounds_are_not_wasted_while_nobody_is_there(tmp_path: Path) -> None:
    """The whole fleet is away for a while after the first round: the second waits for it."""
    settings = patient(rounds=[3], scheduler="random", radio__total_hz=1e9)
    grid = MemoryGrid(settings, tmp_path)
    connected, calls = grid.get_node_ids, []

    def away() -> Iterable[int]:
        calls.append(len(grid.sent))
        started = sum(m.metadata.message_type == "train.report" for m in grid.sent)
        return [] if started == 6 and sum(at == len(grid.sent) for at in calls) < 8 else connected()

    grid.get_node_ids = away  # type: ignore[method-assign]
    record = play(grid, settings, say=lambda _: None, data=tiny_data())
    assert record.records[2].failures == record.records[3].failures == {}


def test_trouble_with_the_grid_is_one_nodes_or_said(tmp_path: Path) -> None:
    settings = patient(rounds=[1], scheduler="random", radio__total_hz=1e9)
    grid = MemoryGrid(settings, tmp_path)
    pull, push = grid.pull_messages, grid.push_messages

    def broken_pull(numbers: Iterable[str]) -> Iterable[Message]:
        found = list(pull(numbers))
        if any(m.metadata.reply_to_message_id == "m7" for m in found):  # after six hellos: client 0's report
            for m in found:
                grid.waiting[m.metadata.reply_to_message_id] = m
            raise ValueError("malformed")
        return found

    grid.pull_messages = broken_pull  # type: ignore[method-assign]
    record = play(grid, settings, say=lambda _: None, data=tiny_data()).records[-1]
    assert record.failures == {"0": "its answer cannot be unpacked (ValueError)"}

    def broken_push(_messages: Iterable[Message]) -> Iterable[str]:
        raise ConnectionError("refused")

    grid.pull_messages, grid.push_messages = pull, broken_push  # type: ignore[method-assign]
    with pytest.raises(InputError, match=r"SuperLink does not answer \(ConnectionError\): go on with resume"):
        play(grid, settings, say=lambda _: None, data=tiny_data())
    grid.push_messages = push  # type: ignore[method-assign]


def test_a_call_that_hangs_is_left_alone(tmp_path: Path) -> None:
    """Flower tries for hours to fetch an answer that came half: the step ends in time all the same."""
    import threading

    settings = patient(rounds=[1], scheduler="random", radio__total_hz=1e9, fleet__upload_s=1.0)
    grid, never = MemoryGrid(settings, tmp_path), threading.Event()
    pull = grid.pull_messages

    def hanging(numbers: Iterable[str]) -> Iterable[Message]:
        if grid.sent[-1].metadata.message_type == "query.upload":
            never.wait(60)
        return pull(numbers)

    grid.pull_messages = hanging  # type: ignore[method-assign]
    record = play(grid, settings, say=lambda _: None, data=tiny_data()).records[-1]
    never.set()
    assert set(record.failures.values()) == {"no answer within 1 s"}


def test_who_is_not_scheduled_is_told_to_forget(tmp_path: Path) -> None:
    """Random asks for no class gradients, which would tell them otherwise."""
    settings = patient(rounds=[1], scheduler="random")
    grid = MemoryGrid(settings, tmp_path)
    record = play(grid, settings, say=lambda _: None, data=tiny_data()).records[-1]
    assert 0 < len(record.clients) < 6
    assert not any(PARKED in context.state for context in grid.contexts.values())


def test_a_secret_gives_the_same_data_the_same_noise(tmp_path: Path) -> None:
    settings = head_settings(rounds=[1, 1], privacy__epsilon=0.5)

    def told(frame: int, file: str) -> list[float]:
        holding = Holding(tiny_data(), scenario_plan(settings))
        device = Device(settings, 0, holding, secret=read_secret(tmp_path / file))
        return list(device.clients.reported_mix(frame, 0))

    assert told(0, "one") == told(0, "one")
    assert told(0, "one") != told(0, "two")
    assert told(0, "one") != told(1, "one")
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o600
    (tmp_path / "short").write_bytes(b"x")
    with pytest.raises(InputError, match="holds less than 16 bytes"):
        told(0, "short")
    with pytest.raises(InputError, match="cannot be used"):
        told(0, "no/such/folder")


def test_nobody_there_is_said(tmp_path: Path) -> None:
    settings = head_settings(rounds=[1])
    grid = MemoryGrid(settings, tmp_path)
    grid.contexts.clear()
    with pytest.raises(
        InputError, match=r"no client has connected within fleet.wait_s=0.3: start SuperNodes"
    ):
        play(grid, settings, say=lambda _: None, data=tiny_data())


def test_a_node_without_a_number_says_so(tmp_path: Path) -> None:
    settings = head_settings(rounds=[1])
    grid = MemoryGrid(settings, tmp_path)
    grid.connect(105, "five")
    with pytest.raises(InputError, match=r"partition-id='five': give every node its number"):
        grid.push_messages([Message(RecordDict(), 105, "query.hello")])


def test_measured_values_replace_the_models(tmp_path: Path) -> None:
    """Reports carry the measured computation time, and the link's gain where a node states one."""
    settings = patient(rounds=[1], fleet__compute_s="measured", scheduler="random", radio__total_hz=1e9)
    grid = MemoryGrid(settings, tmp_path)
    grid.connect(103, 3, **{"channel-gain": 1e-3})
    seen: dict[int, Any] = {}
    exchange = FlowerFleet._exchange

    def spy(self: FlowerFleet, request: Any) -> Any:
        answers = exchange(self, request)
        if request.kind == "report":
            seen.update(answers.given)
        return answers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FlowerFleet, "_exchange", spy)
        record = play(grid, settings, say=lambda _: None, data=tiny_data()).records[-1]
    assert all(report.compute_s > 0 for report in seen.values())
    assert {n: report.channel_gain for n, report in seen.items() if report.channel_gain} == {3: 1e-3}
    place = record.clients.index(3)
    assert record.compute_s[place] == seen[3].compute_s
    # So good a link needs least bandwidth by far.
    assert record.bandwidth_hz[place] == min(record.bandwidth_hz)
    grid.connect(104, 4, **{"channel-gain": -1.0})
    asked = Message(RecordDict({"asked": ConfigRecord({"frame": 0})}), 104, "query.mix")
    (answer,) = grid.pull_messages(grid.push_messages([asked]))
    assert "channel-gain=-1.0: give a power gain above 0" in str(refused(answer.content))


def test_private_nodes_release_one_noisy_mix_a_frame_and_no_counts(tmp_path: Path) -> None:
    settings = patient(rounds=[2], privacy__epsilon=0.5)
    grid, told = MemoryGrid(settings, tmp_path), []
    pull = grid.pull_messages

    def spy(numbers: Iterable[str]) -> Iterable[Message]:
        found = list(pull(numbers))
        told.extend(m.content["report"] for m in found if "report" in m.content)
        return found

    grid.pull_messages = spy  # type: ignore[method-assign]
    play(grid, settings, say=lambda _: None, data=tiny_data())
    assert len(told) == 12
    assert not any("data_counts" in report or "batch_counts" in report for report in told)
    mixes = [tuple(report["released_mix"]) for report in told]
    assert len(set(mixes)) == 6  # the same in both rounds
    again, clients = (
        MemoryGrid(settings, tmp_path),
        Clients(settings, scenario_plan(settings), SeedWorld(settings.seed, tiny_data())),
    )
    record_of = [tuple(mix) for mix in FlowerFleet(again, settings, 6).reported_mixes(clients, 0).values()]
    assert not set(record_of) & set(mixes)  # the noise does not follow the run's seed


def test_settings_come_from_flowers_configuration() -> None:
    found = settings_of(
        {"rounds": "[0, 5]", "training.local-steps": 3, "resume": True, "out": "x", "seed": 4}
    )
    assert (found.rounds, found.training.local_steps, found.seed) == ([0, 5], 3, 4)
    with pytest.raises(InputError, match=r"Flower's run configuration: unknown key .*sceduler"):
        settings_of({"sceduler": "random"})


def test_a_device_with_data_of_its_own() -> None:
    data = tiny_data()
    holding = own_holding(2, data, [np.arange(30), np.arange(20, 60)])
    device = Device(head_settings(rounds=[1, 1]), 2, holding)
    assert device.clients.reported_mix(0, 2).tolist() == [1, 0, 0, 0, 0]
    assert holding.plan.frames[1].counts[2].tolist() == [40, 0, 0, 0, 0]
    with pytest.raises(
        InputError, match=r"client 2 holds 3 samples in frame 0, less than training.batch_size"
    ):
        Device(head_settings(rounds=[1]), 2, own_holding(2, data, [np.arange(3)]))
    settings = head_settings(rounds=[1])
    with pytest.raises(InputError, match="client 7 is not one of the 6, counted from 0"):
        Device(settings, 7, scenario_holding(settings))


@pytest.mark.parametrize("augment", ["none", "flip"])
@pytest.mark.usefixtures("clock")
def test_devices_with_data_of_their_own_do_as_the_scenarios_do(augment: str, tmp_path: Path) -> None:
    """Each knows what it holds itself and nothing of the others: the same rounds, to the bit."""
    settings = patient(rounds=[1, 2], scheduler="fedteddi", training__augment=augment)
    plan = scenario_plan(settings)

    def own(_settings: Settings, number: int) -> Holding:
        return own_holding(number, tiny_data(), [frame.held[number] for frame in plan.frames])

    scenario, alone = (MemoryGrid(settings, tmp_path / name) for name in ("scenario", "alone"))
    alone.app = client_app(own)
    mine, theirs = (play(grid, settings, data=tiny_data()) for grid in (alone, scenario))
    assert all(len(record.clients) > 1 for record in mine.records if record.round)
    assert mine.records == theirs.records


def test_an_unreadable_refusal_is_still_a_refusal() -> None:
    assert server.refused(RecordDict({"refused": ConfigRecord()})) == "no reason that can be read"
    assert server.refused(RecordDict()) is None


def test_the_servers_memory_and_channel_are_the_servers(tmp_path: Path) -> None:
    """Nodes know of neither: FedAvgM and fading on a fleet give what they give in a simulation."""
    settings = patient(rounds=[2, 2], server__aggregation="fedavgm", radio__channel="rayleigh")
    mine = play(MemoryGrid(settings, tmp_path), settings, say=lambda _: None, data=tiny_data())
    theirs = simulate(on_fleet(settings), data=tiny_data())
    plain = simulate(settings, data=tiny_data(), server__aggregation="fedavg")
    losses = [[r.loss for r in record.records if r.loss is not None] for record in (mine, theirs, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[2] != pytest.approx(losses[1], rel=1e-4)
    assert [r.clients for r in mine.records] == [r.clients for r in theirs.records]


def test_only_the_drawn_nodes_are_asked_for_a_variance(tmp_path: Path) -> None:
    """`estimates.gradient_std_clients` = 2: a fleet gives the simulator's results; the others' reports are normal."""
    settings = patient(rounds=[1, 2], estimates__gradient_std_clients=2)
    grid = MemoryGrid(settings, tmp_path)
    found = play(grid, settings, data=tiny_data())
    expected = simulate(on_fleet(settings), data=tiny_data())
    assert len(found.records) == len(expected.records)
    for mine, theirs in zip(found.records, expected.records, strict=True):
        assert (mine.clients, mine.failures) == (theirs.clients, {})
        if mine.gradient_std is not None:
            assert mine.gradient_std == pytest.approx(theirs.gradient_std, rel=1e-4)
    asked = [
        "gradient_std" in message.content.config_records["asked"]["needs"]  # type: ignore[operator]
        for message in grid.sent
        if message.metadata.message_type == "train.report"
    ]
    assert asked.count(True) == 2 * sum(settings.rounds)
    assert len(asked) == 6 * sum(settings.rounds)
