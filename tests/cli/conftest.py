"""What tests of the commands share."""

from pathlib import Path

import numpy as np
import pytest

from fedteddi.settings import write_settings
from small_world import tiny_data, tiny_settings


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny experiment as a user would have it: a TOML file and an .npz beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    data = tiny_data()
    np.savez(
        tmp_path / "tiny.npz",
        train_images=data.train_images.numpy()[:, 0],
        train_labels=data.train_labels.numpy(),
        test_images=data.test_images.numpy()[:, 0],
        test_labels=data.test_labels.numpy(),
    )
    file = tmp_path / "tiny.toml"
    file.write_text(write_settings(tiny_settings(dataset="tiny.npz")))
    return file
