"""The default experiment and `evolving` give what they gave when the golden files were written (`make.py`)."""

import copy
import json
from pathlib import Path

import pytest

from golden.make import FOLDER, ROUNDS, RULES, differences, golden


@pytest.mark.parametrize("name", ROUNDS)
def test_nothing_has_moved(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path))  # or an older pre-trained model could be found
    kept = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    found = golden(name)
    assert list(found["runs"]) == list(kept["runs"]) == list(RULES)
    assert list(differences(found, kept)) == []


def test_what_has_moved_is_named() -> None:
    """One image more in a batch, a delay off by a nanosecond, a client too few, a class four images worse."""
    kept = json.loads((FOLDER / "evolving.json").read_text(encoding="utf-8"))
    moved = copy.deepcopy(kept)
    moved["draws"]["batches"][3] = "another"
    moved["draws"]["compute_s"][2][5] += 1e-9
    last = moved["runs"]["fedteddi"][-1]
    last["clients"] = last["clients"][:-1]
    last["class_accuracy"][1] += 4 / 200
    where = f"fedteddi, frame {last['frame']}, round {last['round']}"
    assert list(differences(moved, kept)) == [
        "batches",
        "compute_s",
        f"{where}: clients",
        f"{where}: class_accuracy",
    ]
