"""Messages to Flower's nodes and back, whatever happens on the way: nothing here waits longer than it was told to.

Flower's Grid raises where a node sent what cannot be unpacked, and its calls try again for hours if an answer arrives
half, or the SuperLink is lost. So calls are made on threads that can be left alone, and one node's trouble is its own.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedteddi.errors import InputError

POLL_S = 0.1
CALL_S = 60.0  # for one call to the SuperLink that sends, or asks who is there

AWAITED_S = 3600.0  # an answer that comes later is not timed


class Post:
    """Sends messages and collects answers."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.took_s: dict[int, float] = {}  # from the last message to its answer, by receiver
        self._sent_at: dict[str, float] = {}  # by message; those that are never answered are forgotten

    def nodes(self) -> set[int]:
        """Return the nodes that are connected."""
        return set(self._called(self.grid.get_node_ids))

    def send(self, messages: dict[int, Message]) -> tuple[dict[str, int], dict[int, str]]:
        """Send a message to each of some receivers; return whose answer has which number, and who cannot be reached."""
        sent: dict[str, int] = {}
        lost: dict[int, str] = {}
        errors, now = [], time.monotonic()
        self._sent_at = {number: at for number, at in self._sent_at.items() if now - at < AWAITED_S}
        for receiver, message in messages.items():
            try:
                numbers = list(self._called(partial(self.grid.push_messages, [message])))
            except InputError:
                raise
            except Exception as error:
                lost[receiver] = f"the message could not be sent ({type(error).__name__})"
                errors.append(error)
                continue
            if numbers and numbers[0]:
                sent[numbers[0]] = receiver
                self._sent_at[numbers[0]] = time.monotonic()
            else:
                lost[receiver] = "it is gone"
        if errors and len(errors) == len(messages):
            raise InputError(
                f"Flower's SuperLink does not take messages ({errors[0]}): go on with resume=true"
            )
        return sent, lost

    def answers(self, waiting: dict[str, int], until: float) -> Iterator[tuple[int, Message | Exception]]:
        """Give out answers as they come, and take them off the list, until all are there or the time is over."""
        while waiting and time.monotonic() < until:
            came = self._pulled([*waiting], until)
            for number, answer in came:
                if number in waiting:
                    receiver, now = waiting.pop(number), time.monotonic()
                    self.took_s[receiver] = now - self._sent_at.pop(number, now)
                    yield receiver, answer
            if not came:
                time.sleep(POLL_S)

    def _pulled(self, numbers: list[str], until: float) -> list[tuple[str, Message | Exception]]:
        """Return what has arrived; an answer that cannot be unpacked comes as the error it makes."""
        try:
            came = _in_time(lambda: list(self.grid.pull_messages(numbers)), until - time.monotonic())
        except TimeoutError:
            return []
        except Exception as error:
            if len(numbers) == 1:
                return [(numbers[0], error)]
            return [answer for number in numbers for answer in self._pulled([number], until)]
        return [(reply.metadata.reply_to_message_id, reply) for reply in came]

    @staticmethod
    def _called(call: Callable[[], Any]) -> Any:
        try:
            return _in_time(call, CALL_S)
        except (OSError, TimeoutError) as error:
            raise InputError(
                f"Flower's SuperLink does not answer ({type(error).__name__}): go on with resume=true"
            ) from None


def _in_time(call: Callable[[], Any], limit_s: float) -> Any:
    """Return what a call returns, or raise what it raises; `TimeoutError` if it takes too long: it is left alone."""
    result: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def work() -> None:
        with contextlib.suppress(RuntimeError):  # the interpreter may be ending
            try:
                result.put((True, call()))
            except BaseException as error:
                result.put((False, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        good, value = result.get(timeout=max(0.001, limit_s))
    except queue.Empty:
        raise TimeoutError from None
    if good:
        return value
    raise value
