"""`fedteddi data get` and `list`, against a server on this machine; --data-dir where experiments are run."""

import errno
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cifar_files import write_archive, write_folder
from cli_runner import Outcome
from fedteddi.learning.datasets import download as downloads
from fedteddi.learning.datasets.catalogue import CIFAR
from fedteddi.learning.datasets.download import SOURCES, Source
from mirror import Mirror, serve

Cli = Callable[..., Outcome]
TEN = CIFAR["cifar10"]


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    """A good mirror of a tiny CIFAR-10 whose SHA-256 is expected."""
    for variable in (
        "FEDTEDDI_DATA",
        "FEDTEDDI_MIRROR",
        "http_proxy",
        "HTTP_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    content = write_archive(TEN, tmp_path / "server").read_bytes()
    monkeypatch.setitem(
        SOURCES, "cifar10", Source("http://127.0.0.1:1/", hashlib.sha256(content).hexdigest())
    )
    mirror = Mirror(TEN.archive, content)
    server = serve(mirror)
    mirror.url = f"http://127.0.0.1:{server.server_address[1]}/some/{TEN.archive}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield mirror
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data sets"


def get(cli: Cli, mirror: Mirror, folder: Path) -> Outcome:
    return cli("data", "get", "cifar10", "--data-dir", folder, "--url", mirror.url)


def assert_refused(done: Outcome, *words: str) -> None:
    assert done.code == 2
    errors = [line for line in done.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert done.err.rstrip().splitlines()[-1] == errors[0]
    for word in words:
        assert word in errors[0]


# --- good days


def test_what_is_fetched_is_found_and_not_fetched_twice(cli: Cli, mirror: Mirror, folder: Path) -> None:
    done = get(cli, mirror, folder)
    assert done.code == 0, done.err
    assert done.out.startswith(f"cifar10 is in {folder / TEN.archive}\nNext: fedteddi run cifar10")
    assert "MB" in done.err
    assert [file.name for file in folder.iterdir()] == [TEN.archive]
    assert (folder / TEN.archive).read_bytes() == mirror.content
    again = get(cli, mirror, folder)
    assert again.code == 0
    assert again.out.startswith(f"cifar10 is in {folder / TEN.archive} already, whole\n")
    assert len(mirror.asked) == 1


def test_it_goes_to_the_cache_and_a_mirror_may_come_from_the_environment(
    cli: Cli, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDTEDDI_MIRROR", mirror.url.removesuffix(TEN.archive))
    assert cli("data", "get", "cifar10").code == 0
    assert (tmp_path / "cache" / "data" / TEN.archive).is_file()


def test_a_server_that_does_not_say_how_long_it_is(cli: Cli, mirror: Mirror, folder: Path) -> None:
    mirror.says_length = False
    assert get(cli, mirror, folder).code == 0
    assert (folder / TEN.archive).read_bytes() == mirror.content


def test_a_folder_that_is_there_already_is_not_fetched(cli: Cli, mirror: Mirror, folder: Path) -> None:
    write_folder(TEN, folder)
    done = get(cli, mirror, folder)
    assert done.code == 0
    assert f"{folder / TEN.folder} already" in done.out
    assert mirror.asked == []


def test_a_damaged_archive_is_fetched_anew(cli: Cli, mirror: Mirror, folder: Path) -> None:
    folder.mkdir()
    (folder / TEN.archive).write_bytes(mirror.content[:-1])
    assert get(cli, mirror, folder).code == 0
    assert (folder / TEN.archive).read_bytes() == mirror.content


# --- bad days


def test_a_wrong_checksum_leaves_nothing(cli: Cli, mirror: Mirror, folder: Path) -> None:
    mirror.content = mirror.content[:-1] + b"!"
    assert_refused(get(cli, mirror, folder), "is not cifar10", SOURCES["cifar10"].sha256, "--url")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_an_http_error_is_one_sentence(status: int, cli: Cli, mirror: Mirror, folder: Path) -> None:
    mirror.status = status
    assert_refused(get(cli, mirror, folder), f"it answers {status}, ", mirror.url, "--url")
    assert list(folder.iterdir()) == []


def test_a_connection_that_breaks_leaves_nothing(cli: Cli, mirror: Mirror, folder: Path) -> None:
    mirror.breaks_after = 1000
    assert_refused(get(cli, mirror, folder), mirror.url, "cannot be fetched", "1000 bytes read", "--url")
    assert list(folder.iterdir()) == []
    mirror.breaks_after = None
    assert get(cli, mirror, folder).code == 0


def test_a_damaged_archive_stays_while_nothing_better_came(cli: Cli, mirror: Mirror, folder: Path) -> None:
    folder.mkdir()
    (folder / TEN.archive).write_bytes(mirror.content[:-1])
    mirror.status = 503
    assert_refused(get(cli, mirror, folder), "answers 503")
    assert (folder / TEN.archive).read_bytes() == mirror.content[:-1]


@pytest.mark.usefixtures("mirror")
def test_a_refused_connection_is_one_sentence(cli: Cli, folder: Path) -> None:
    done = cli("data", "get", "cifar10", "--data-dir", folder)  # nobody listens on port 1
    assert_refused(done, "http://127.0.0.1:1/ cannot be fetched (Connection refused)", "--url")
    assert list(folder.iterdir()) == []


def test_an_empty_answer_is_one_sentence(cli: Cli, mirror: Mirror, folder: Path) -> None:
    mirror.content = b""
    assert_refused(get(cli, mirror, folder), "is not cifar10")
    assert list(folder.iterdir()) == []


def test_a_full_disk_is_one_sentence_and_is_not_kept_full(
    cli: Cli, mirror: Mirror, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> bool:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pooch.core.hash_matches", full)  # as if the last bytes had found no room
    assert_refused(get(cli, mirror, folder), "No space left on device", "--data-dir")
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_sentence(cli: Cli, mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert_refused(get(cli, mirror, tmp_path / "file" / "x"), "cannot be written", "--data-dir")
    assert_refused(get(cli, mirror, tmp_path / "file"), "cannot be written", "--data-dir")
    assert mirror.asked == []


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://x/y.tar.gz", "file:///etc/passwd", "nonsense", "http://["),
        *("http://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "http://127.0.0.1.example.org/"),
    ],
)
@pytest.mark.usefixtures("mirror")
def test_only_https_or_this_machine_is_asked(url: str, cli: Cli, folder: Path) -> None:
    done = cli("data", "get", "cifar10", "--data-dir", folder, "--url", url)
    assert_refused(done, url, "starts with https://")
    assert not folder.exists()


def test_a_redirection_away_from_https_is_not_followed(cli: Cli, mirror: Mirror, folder: Path) -> None:
    """Here to another protocol that nothing could answer: it must be refused before it is asked."""
    mirror.moved_to = "http://example.invalid/cifar-10-python.tar.gz"
    assert_refused(get(cli, mirror, folder), mirror.moved_to, "starts with https://")
    assert list(folder.iterdir()) == []


def test_progress_never_passes_the_whole() -> None:
    """Three pieces of 4 bytes for 10 bytes, then pooch's own end: 4, 8, 10, 10."""
    told: list[tuple[int, int | None]] = []
    progress = downloads.Progress(lambda here, whole: told.append((here, whole)))
    progress.total = 10
    for size in (4, 4, 4):
        progress.update(size)
    progress.reset()
    progress.update(10)
    progress.close()
    assert told == [(4, 10), (8, 10), (10, 10), (10, 10)]


def test_only_what_can_be_fetched_can_be_named(cli: Cli) -> None:
    assert_refused(cli("data", "get", "cifar11"), "NAME='cifar11'", "cifar10, cifar100")
    assert_refused(cli("data", "get", "fashion-mnist"), "choose one of cifar10, cifar100")


# --- listing and using


def test_list_says_where_each_is_or_how_to_get_it(cli: Cli, mirror: Mirror, folder: Path) -> None:
    get(cli, mirror, folder)
    lines = cli("data", "list", "--data-dir", folder).out.splitlines()
    assert lines[0].split(maxsplit=1) == ["fashion-mnist", "inside the package"]
    assert lines[1].split(maxsplit=1) == ["cifar10", str(folder / TEN.archive)]
    assert lines[2].startswith("cifar100 ")
    assert lines[2].endswith(f"missing from {folder}: fedteddi data get cifar100 --data-dir '{folder}'")


def test_experiments_use_the_given_folder(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDTEDDI_DATA", raising=False)
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tiny.toml").write_text(
        'dataset = "cifar10"\nrounds = [0, 1]\n[radio]\ndeadline_s = 9.0\n'
        "[scenario]\nlayout = 'classes'\nclients = 2\nsamples_per_client = 2\nclasses_per_client = 1\n"
        "class_weights = [0, 0, 0, 0, 0, 1, 1]\n[training]\nbatch_size = 2\nlocal_steps = 1\npretrain_epochs = 0\n"
    )
    commands = (["scenario"], ["run"], ["compare", "--scheduler", "random"])
    for words in commands:
        assert_refused(cli(words[0], "tiny.toml", *words[1:]), "fedteddi data get cifar10", "--data-dir")
    assert not (tmp_path / "runs").exists()  # so the same command works once the data is there
    write_folder(TEN, tmp_path / "data")
    for words in commands:
        done = cli(words[0], "tiny.toml", *words[1:], "--data-dir", "data")
        assert done.code == 0, done.err


def test_the_data_commands_do_not_wait_for_torch(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom fedteddi.cli.app import app\n"
        f"app(['data', 'list', '--data-dir', {str(tmp_path)!r}], standalone_mode=False)\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0
