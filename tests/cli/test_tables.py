"""Tables in a terminal of 80 columns: nothing folds, nothing is cut."""

import io

import numpy as np
import pandas as pd
import pytest

from fedteddi.cli.output import console
from fedteddi.cli.tables import held, plan_sentence, print_plan, print_table
from fedteddi.scenario.plan import Frame, Plan

WIDTH = 80


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    file = io.StringIO()
    monkeypatch.setattr("fedteddi.cli.tables.out", console(file=file, width=WIDTH))
    return file


def test_columns_that_do_not_fit_follow_in_a_block_of_their_own(written: io.StringIO) -> None:
    """A name of 22 characters and 6 columns of 17 need 22 + 6·19 = 136; 3 fit beside the name: 22 + 3·19 = 79."""
    names = ["best-channel-best-norm", "random"]
    numbers = {f"balanced {level}%": ["+120 [+080, +160]", f"+{level}"] for level in range(60, 66)}
    print_table(pd.DataFrame({"scheduler": names} | numbers), keys=1)
    lines = written.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= WIDTH
    first, second = (written.getvalue().split("\n\n")[i] for i in (0, 1))
    assert [f"balanced {level}%" in first for level in range(60, 66)] == [True] * 3 + [False] * 3
    assert [f"balanced {level}%" in second for level in range(60, 66)] == [False] * 3 + [True] * 3
    for block in (first, second):
        assert block.count("best-channel-best-norm") == 1
        assert block.count("+120 [+080, +160]") == 3


def test_what_is_the_same_in_all_rows_is_said_once(written: io.StringIO) -> None:
    rows = {
        "deadline s": [1.0, 1.0],
        "scheduler": ["fedteddi", "random"],
        "seeds": [2, 2],
        "best": [0.7, 0.65],
    }
    print_table(pd.DataFrame(rows), keys=2)
    said, names, *cells = written.getvalue().splitlines()
    assert said == "in every row: deadline s 1; seeds 2"
    assert names.split() == ["scheduler", "best"]
    assert [line.split() for line in cells] == [["fedteddi", "0.700"], ["random", "0.650"]]


def test_one_row_keeps_all_its_columns_and_prose_goes_on_in_the_next_line(written: io.StringIO) -> None:
    claim = "fedteddi-plus needs fewer rounds than every scheduler of the paper as it is, at every deadline"
    print_table(pd.DataFrame({"claim": [claim], "accuracy": ["balanced"]}), keys=1)
    lines = written.getvalue().splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "accuracy" in lines[0]
    assert " ".join(" ".join(line[:70] for line in lines[1:]).replace("balanced", "").split()) == claim


def test_an_empty_table_prints_nothing(written: io.StringIO) -> None:
    print_table(pd.DataFrame({"scheduler": []}), keys=1)
    assert written.getvalue() == ""


def counted(*classes: int) -> np.ndarray:
    return np.array(classes)


def test_what_is_new_to_a_client_is_never_cut() -> None:
    """Room for 8 characters, in two lines 16: the four new classes need 23 and are all there; the old ones give way."""
    before, now = counted(5, 5, 5, 0, 0, 0, 0), counted(2, 2, 2, 10, 10, 10, 10)
    assert held(now, before, 8) == "+3×10 +4×10 +5×10 +6×10 …"
    assert held(now, before, 40) == "+3×10 +4×10 +5×10 +6×10 0×2 1×2 2×2"
    assert held(now, before, 16) == "+3×10 +4×10 +5×10 +6×10 0×2 …"  # 29 of 32 characters, and 33 with 1×2
    assert held(before, None, 40) == "0×5 1×5 2×5"  # nothing is marked in frame 0
    assert held(now, now, 40) == "as before"


def plan_of(*frames: list[list[int]]) -> Plan:
    counts = [np.array(frame) for frame in frames]
    return Plan(tuple(Frame(tuple(np.zeros(0, dtype=int) for _ in one), one) for one in counts))


def test_a_plan_is_told_in_a_sentence() -> None:
    """Classes 0 to 2; frame 1 brings class 3 to client 0, frame 2 gives client 1 what client 0 had."""
    plan = plan_of([[1, 1, 0, 0], [0, 0, 1, 0]], [[1, 0, 0, 1], [0, 0, 1, 0]], [[1, 0, 0, 1], [1, 1, 0, 0]])
    assert plan_sentence(plan) == (
        "2 clients with classes 0–2; frame 1 brings class 3, and changes 1 client;"
        " frame 2 brings no new class, and changes 1 client."
    )


def test_many_frames_follow_below(written: io.StringIO) -> None:
    """Beside a client's number three frames of at least 18 characters fit 80 columns: seven make three tables."""
    frames = [[[10 * (c == frame) for c in range(7)]] for frame in range(7)]
    print_plan(plan_of(*frames))
    shown = written.getvalue()
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= WIDTH
    assert shown.count("client  frame") == 3
    assert [f"+{c}×10" in shown for c in range(7)] == [False] + [True] * 6
