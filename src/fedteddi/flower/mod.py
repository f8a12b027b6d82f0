"""`report_first`, a Flower mod: an app's training becomes two messages, its numbers first, its arrays when asked.

What must last from one message to the next lies in the node's own `Context.state`, which both of Flower's engines keep:
the Simulation Engine per virtual node, a SuperNode in its memory. On a SuperNode every message is a new process.
"""

import time
from collections import Counter

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from fedteddi.errors import InputError
from fedteddi.flower.labels import NOT_SEEN, CountedError, LabelsOf, counted, counting_batches
from fedteddi.flower.records import refusal
from fedteddi.flower.told import ASKED, TOLD, Told, plain_content, told_record, update_norm

KEPT = "fedteddi.kept"  # the tag; beside it "fedteddi.kept/NAME", a record of the app's answer each


def report_first(
    message: Message, context: Context, call_next: ClientAppCallable, *, labels: LabelsOf | None = None
) -> Message:
    """Train, keep the arrays on the node and answer with numbers only; send the arrays when asked.

    A mod: `ClientApp(mods=[report_first])`. It acts on messages of `Scheduled` and passes all others on. Labels are
    counted from the app's DataLoader while it trains, or come from a function of the node's context:
    `partial(report_first, labels=my_labels)`, which returns every label [D], or {class: samples}.
    """
    asked = message.content.config_records.get(ASKED) if message.has_content() else None
    if asked is None:
        return call_next(message, context)
    phase, tag = str(asked["phase"]), str(asked["tag"])
    if phase == "upload":
        return Message(_taken(context, tag), reply_to=message)
    _forget(context)  # what was not asked for is not wanted any more
    message.content = plain_content(message.content)
    try:
        if phase == "labels":
            counts = _counts_without_training(message, context, call_next, labels)
            return Message(
                RecordDict({TOLD: told_record(_told(counts, context, None, None))}), reply_to=message
            )
        before = message.content if "update_norm" in list(asked["needs"]) else None  # type: ignore[arg-type]
        reply, told = _trained(message, context, call_next, labels, before)
    except InputError as error:
        return Message(refusal(str(error)), reply_to=message)
    if told is None:  # its app answered with an error
        return reply
    if phase == "report":
        _keep(context, tag, reply.content)
        reply.content = RecordDict(dict(reply.content.metric_records))
    reply.content[TOLD] = told_record(told)
    return reply


def _trained(
    message: Message,
    context: Context,
    call_next: ClientAppCallable,
    labels: LabelsOf | None,
    before: RecordDict | None,
) -> tuple[Message, Told | None]:
    """Let the app train; return its answer, and what is told of it."""
    if labels is not None:
        counts = counted(labels(context))
        began = time.perf_counter()
        reply = call_next(message, context)
    else:
        with counting_batches() as counts:
            began = time.perf_counter()
            reply = call_next(message, context)
    compute_s = time.perf_counter() - began
    if reply.has_error():
        return reply, None
    norm = None if before is None else update_norm(before, reply.content)
    return reply, _told(counts, context, compute_s, norm)


def _counts_without_training(
    message: Message, context: Context, call_next: ClientAppCallable, labels: LabelsOf | None
) -> Counter[int]:
    if labels is not None:
        return counted(labels(context))
    state = dict(context.state)
    with counting_batches(dry=True) as counts:
        try:
            call_next(message, context)
        except CountedError:
            pass
        finally:  # nothing has happened
            for name in [*context.state]:
                if name not in state:
                    del context.state[name]
            for name, record in state.items():
                context.state[name] = record
    return counts


def _told(counts: Counter[int], context: Context, compute_s: float | None, norm: float | None) -> Told:
    if not sum(counts.values()):
        raise InputError(NOT_SEEN)
    gain, partition = context.node_config.get("channel-gain"), context.node_config.get("partition-id")
    return Told(
        counts=counts,
        compute_s=compute_s,
        update_norm=norm,
        channel_gain=None if gain is None else float(gain),
        partition=partition if isinstance(partition, int) and not isinstance(partition, bool) else None,
    )


def _keep(context: Context, tag: str, content: RecordDict) -> None:
    """Keep an answer on the node, in its order, under the tag of its round."""
    context.state[KEPT] = ConfigRecord({"tag": tag, "names": [*content]})
    for name, record in content.items():
        context.state[f"{KEPT}/{name}"] = record


def _taken(context: Context, tag: str) -> RecordDict:
    """Take the answer of this round, and no other, off the node."""
    kept = context.state.config_records.get(KEPT)
    if kept is None:
        return refusal("it holds no trained arrays: it was restarted, or has sent them")
    if kept["tag"] != tag:
        return refusal("it holds the arrays of another round")
    names = [str(name) for name in kept["names"]]  # type: ignore[union-attr]
    content = RecordDict({name: context.state[f"{KEPT}/{name}"] for name in names})
    _forget(context)
    return content


def _forget(context: Context) -> None:
    for name in [name for name in context.state if name == KEPT or name.startswith(f"{KEPT}/")]:
        del context.state[name]
