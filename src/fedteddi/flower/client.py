"""The devices' side of a fleet, as a Flower ClientApp: train and report, upload if asked, forget.

On Flower's Deployment Engine every message is a process of its own, so PyTorch is imported only where it is needed, and
what must last from one message to the next lies in the node's state: the model that was trained, under the tag of its
round, and, with privacy on, each frame's noisy release.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedteddi.errors import InputError
from fedteddi.flower.records import (
    gradient_records,
    read_vector,
    refusal,
    report_records,
    settings_of,
    vector_record,
)
from fedteddi.protocol.messages import Kind, Request
from fedteddi.settings import Settings, parse_settings

if TYPE_CHECKING:
    from fedteddi.flower.device import Device, Holding

# What a device has: from the run's settings and its own number.
HoldingOf = Callable[[Settings, int], "Holding"]
PARKED, TAG, RELEASES = "parked", "parked-tag", "releases"


def client_app(holding: HoldingOf | None = None) -> ClientApp:
    """Make the ClientApp; without `holding`, a device holds its part of the experiment's scenario.

    A node says who it is by `partition-id` in its configuration, counted from 0. It may also say `device` (cpu, cuda,
    auto), `data-dir` (where CIFAR lies), `channel-gain` (the power gain of its link, if that is known) and
    `secret-file` (from which the noise of its releases comes, docs/deploy.md).
    """
    app = ClientApp()
    app.query("hello")(_hello)
    app.query("upload")(_upload)
    app.query("forget")(_forget_round)

    @app.query("mix")
    @_or_refuse
    def mix(message: Message, context: Context) -> Message:
        """Report the class mix of a frame that has no rounds."""
        device, frame = _device(context, holding, now=True), _asked_int(message, "frame")
        reported = device.clients.reported_mix(frame, device.number)
        _keep_releases(context, device)
        mix: dict[str, Any] = {
            "mix": [float(share) for share in reported],
            "num_samples": device.num_samples(frame),
        }
        return _reply(message, RecordDict({"mix": MetricRecord(mix)}))

    @app.train("report")
    @_or_refuse
    def report(message: Message, context: Context) -> Message:
        """Train, park the model, and report."""
        _forget(context)
        device = _device(context, holding, message, now=True)
        reported, trained = device.report(_request(message, device, "report"))
        _keep_releases(context, device)
        context.state[PARKED] = vector_record(trained.weights.cpu().numpy())
        context.state[TAG] = ConfigRecord({"tag": _asked(message)["tag"]})
        return _reply(message, report_records(reported))

    @app.query("class_gradients")
    @_or_refuse
    def class_gradients(message: Message, context: Context) -> Message:
        """Send sums of gradients at the server's model."""
        if _asked(message)["uploads_over"]:  # what was not asked for is not wanted any more
            _forget(context)
        device = _device(context, holding, message)
        request = _request(message, device, "class_gradients")
        return _reply(message, gradient_records(device.class_gradients(request)))

    return app


def _hello(message: Message, context: Context) -> Message:
    """Say which client this is."""
    return _reply(message, RecordDict({"client": ConfigRecord({"number": _number(context)})}))


def _upload(message: Message, context: Context) -> Message:
    """Send the model of this round, and no other."""
    kept = context.state.config_records.get(TAG)
    if kept is None or PARKED not in context.state:
        return _reply(message, refusal("it holds no trained model: it was restarted, or has sent it"))
    if kept["tag"] != _asked(message)["tag"]:
        return _reply(message, refusal("it holds the model of another round"))
    time.sleep(float(_asked(message).get("hold_s", 0.0)))  # type: ignore[arg-type]  # fleet.pace
    sent = RecordDict({"upload": context.state[PARKED]})
    _forget(context)
    return _reply(message, sent)


def _forget_round(message: Message, context: Context) -> Message:
    """Drop the model of a round that is over."""
    _forget(context)
    return _reply(message, RecordDict())


def _or_refuse(answer: Callable[[Message, Context], Message]) -> Callable[[Message, Context], Message]:
    """Make what a device cannot or will not do an answer: the server records its sentence."""

    @wraps(answer)
    def answered(message: Message, context: Context) -> Message:
        try:
            return answer(message, context)
        except InputError as error:
            return _reply(message, refusal(str(error)))

    return answered


def _reply(message: Message, content: RecordDict) -> Message:
    return Message(content, reply_to=message)


def _asked(message: Message) -> ConfigRecord:
    return message.content.config_records["asked"]


def _asked_int(message: Message, key: str) -> int:
    return int(_asked(message)[key])  # type: ignore[arg-type]  # Flower's type covers all it can carry


def _number(context: Context) -> int:
    number = context.node_config.get("partition-id")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise InputError(f"--node-config partition-id={number!r}: give every node its number, from 0")
    return number


def _request(message: Message, device: "Device", kind: Kind) -> Request:
    import torch

    asked = _asked(message)
    samples = None
    if kind == "class_gradients":
        samples = np.zeros((device.number + 1, device.runtime.num_classes), dtype=np.int64)
        samples[device.number] = asked["samples"]
    model = torch.from_numpy(read_vector(message.content, "model").copy())
    return Request(
        kind=kind,
        frame=_asked_int(message, "frame"),
        round=_asked_int(message, "round"),
        weights=device.engine.place(model),
        clients=(device.number,),
        needs=frozenset(str(need) for need in asked["needs"]),  # type: ignore[union-attr]
        learning_rate=float(asked["learning_rate"]),  # type: ignore[arg-type]
        samples=samples,
    )


def _device(
    context: Context, holding: HoldingOf | None, message: Message | None = None, *, now: bool = False
) -> "Device":
    """Return the device, made once per process, with the releases of this node.

    One whose data changes is asked what it holds `now`; images are scaled as the server's message says.
    """
    settings = settings_of(context.run_config)
    config = context.node_config
    device = _made_device(
        settings.model_dump_json(),
        _number(context),
        holding,
        str(config.get("data-dir", context.run_config.get("data-dir", ""))),
        str(config.get("device", "cpu")),
        _gain(config.get("channel-gain")),
        str(config.get("secret-file", "")),
    )
    own = None
    if now and device.holding.live and holding is not None:
        own = _with_gain(holding(settings, device.number), _gain(config.get("channel-gain")))
    scale = None if message is None else message.content.config_records.get("scale")
    device.hold(own, scale)
    kept = context.state.metric_records.get(RELEASES)
    device.clients.releases = {} if kept is None else {int(k): np.array(mix) for k, mix in kept.items()}
    return device


@lru_cache(maxsize=64)
def _made_device(
    settings_json: str,
    number: int,
    holding: HoldingOf | None,
    data_dir: str,
    device: str,
    gain: float | None,
    secret_file: str,
) -> "Device":
    import torch

    from fedteddi.flower.device import Device, read_secret

    if "OMP_NUM_THREADS" not in os.environ:  # several nodes on one machine would get into each other's way
        torch.set_num_threads(1)
    settings = parse_settings(json.loads(settings_json))
    own = holding(settings, number) if holding is not None else _scenario(settings_json, data_dir)
    own = _with_gain(own, gain)
    return Device(settings, number, own, device, read_secret(Path(secret_file)) if secret_file else None)


@lru_cache(maxsize=2)
def _scenario(settings_json: str, data_dir: str) -> "Holding":
    """Return the experiment's scenario; all devices of a process share it."""
    from fedteddi.flower.device import scenario_holding

    return scenario_holding(parse_settings(json.loads(settings_json)), data_dir or None)


def _with_gain(own: "Holding", gain: float | None) -> "Holding":
    return own if gain is None else replace(own, channel_gain=lambda: gain)


def _gain(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InputError(f"--node-config channel-gain={value!r}: give a power gain above 0, such as 1e-10")
    return float(value)


def _keep_releases(context: Context, device: "Device") -> None:
    if device.clients.releases:
        reported: dict[str, Any] = {
            str(frame): [float(p) for p in mix] for frame, mix in device.clients.releases.items()
        }
        context.state[RELEASES] = MetricRecord(reported)


def _forget(context: Context) -> None:
    for name in (PARKED, TAG):
        if name in context.state:
            del context.state[name]
