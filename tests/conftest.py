from collections.abc import Callable

import pytest
import torch

from cli_runner import Outcome, runner


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    return runner(capfd, monkeypatch)


# Two test processes on two cores: more threads would only wait for each other.
torch.set_num_threads(1)
