from collections.abc import Callable

import pytest

from cli_runner import Outcome, runner


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    return runner(capfd, monkeypatch)
