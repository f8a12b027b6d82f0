"""The pages of docs/extend as printed: their parts of one's own keep the laws, run, resume and compare."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedteddi import check_aggregation, check_channel, check_local_training, simulate
from fedteddi.aggregation import make_aggregation
from fedteddi.learning.datasets.given import as_dataset
from fedteddi.learning.local_training import make_local_training
from fedteddi.registry import find
from fedteddi.settings import override
from fedteddi.wireless.cell import positions_of
from fedteddi.wireless.channels import CHANNELS, Draws
from small_world import tiny_data, tiny_settings

PAGES = {
    page.stem: page.read_text(encoding="utf-8") for page in Path(__file__).parents[1].glob("docs/extend/*.md")
}


def printed(page: str, folder: Path) -> Path:
    """Write the example of a page into the file that its text names."""
    (name,), (source,) = (
        re.findall(r"^`(\w+\.py)`", PAGES[page], re.M),
        re.findall(r"```python\n(.*?)```", PAGES[page], re.S),
    )
    lines = [line for line in source.splitlines() if line.strip()]
    assert len(lines) <= 15
    (folder / name).write_text(source)
    return folder / name


def words(page: str) -> list[str]:
    """The --set words of the page's command that names a file."""
    (command,) = [
        line for line in PAGES[page].splitlines() if line.startswith("    fedteddi run") and ".py:" in line
    ]
    return re.findall(r"--set (\S+)", command)


@pytest.mark.parametrize("page", ["channel", "aggregation", "local-training"])
def test_the_examples_run_as_printed_and_resume(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = override(tiny_settings(rounds=[2, 2, 0]), words(page))
    whole = simulate(settings, data=tiny_data(), out="whole")
    assert whole.finished
    assert any(r.clients for r in whole.records if r.round)
    stopped = simulate(settings, data=tiny_data(), out="parts", time_limit_s=0.0)
    assert not stopped.finished
    resumed = simulate(settings, data=tiny_data(), out="parts", resume=True)
    assert resumed.records == whole.records
    assert whole.records != simulate(tiny_settings(rounds=[2, 2, 0]), data=tiny_data()).records


def test_the_channel_of_the_page(tmp_path: Path) -> None:
    """Nakagami-m power is Gamma(m, 1/m): mean 1, variance 1/m. At 100 m the path loss is 90.5 dB."""
    kind: Any = find(CHANNELS, f"{printed('channel', tmp_path)}:Nakagami").value
    assert check_channel(kind()) == {}
    assert kind(m=4.0).gains(positions_of(0, 5), Draws(0, 1, 1)).shape == (5,)
    power = kind(m=4.0).gains(np.full((20_000, 2), [100.0, 0.0]), Draws(0, 1, 1)) * 10**9.05
    assert power.mean() == pytest.approx(1.0, abs=5 * 0.5 / np.sqrt(20_000))
    assert power.var() == pytest.approx(0.25, abs=0.02)


def test_the_aggregation_of_the_page(tmp_path: Path) -> None:
    rule = make_aggregation(f"{printed('aggregation', tmp_path)}:FedAdam", rate=0.02)
    assert check_aggregation(rule) == {}
    assert check_aggregation(rule, torch.tensor) == {}


def test_the_local_training_of_the_page(tmp_path: Path) -> None:
    rule = make_local_training(f"{printed('local-training', tmp_path)}:Clipped", most=0.05)
    assert check_local_training(rule) == {}


def test_the_objects_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As printed, in a session of its own: features learnt by a user's network, under a user's rule and channel."""
    (source,) = re.findall(r"```python\n(.*?)```", PAGES["python"], re.S)
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path))
    session: dict[str, Any] = {"__name__": "a_cell"}
    exec(source, session)
    features, labels, study = (session[name] for name in ("features", "labels", "study"))
    data = as_dataset(((features[:1500], labels[:1500]), (features[1500:], labels[1500:])))
    assert study.schedulers == ["strongest", "random"]
    for run in study.runs:
        assert run.records[-1].balanced is not None
        assert run.records[-1].balanced > 0.6  # by chance 0.25
    with torch.no_grad():
        guesses = session["model"](data.normalised(data.test_images)).argmax(dim=1)
    right = [float((guesses[data.test_labels == c] == c).float().mean()) for c in range(4)]
    assert study.runs[0].records[-1].class_accuracy == pytest.approx(right)
