"""What a round's messages were in bytes, and how fast they came, where the runtime measures it."""

from collections import Counter
from collections.abc import Generator
from dataclasses import replace

from fedteddi.protocol.messages import Answers, Request
from fedteddi.protocol.state import RoundFacts

Round = Generator[Request, Answers, RoundFacts]


def counting(played: Round) -> Round:
    """Play a round, and add to its facts what the runtime measured of its messages; nothing else changes."""
    num_bytes: Counter[str] = Counter()
    uplink_bps: dict[int, float] = {}
    try:
        request = next(played)
        while True:
            answers = yield request
            if answers.num_bytes is not None:
                num_bytes[request.kind] += answers.num_bytes
            uplink_bps |= answers.uplink_bps or {}
            request = played.send(answers)
    except StopIteration as stop:
        facts: RoundFacts = stop.value
        return replace(facts, message_bytes=dict(num_bytes) or None, uplink_bps=uplink_bps or None)
    finally:  # a round that is left puts its state back
        played.close()
