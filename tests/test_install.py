"""The sdist and the wheel, installed into empty environments: the core alone, and as the Dockerfile does it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fedteddi"
DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
MEGABYTE = 10**6


def steps(instruction: str) -> list[str]:
    """Return what follows an instruction of the Dockerfile, for each time it is there."""
    return re.findall(rf"^{instruction} (.+)$", DOCKERFILE, re.MULTILINE)


def copied() -> list[tuple[list[str], str]]:
    """Return what the Dockerfile takes from the repository, and where to."""
    words = [shlex.split(step) for step in steps("COPY") if "--from" not in step]
    return [(sources, target) for *sources, target in words]


def test_the_image_gets_what_it_copies() -> None:
    """.dockerignore hides everything but the lines that begin with !."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    shown = {line[1:] for line in lines if line.startswith("!")}
    assert shown == {source for sources, _ in copied() for source in sources}
    assert all((ROOT / source).exists() for source in shown)


def test_the_image_plays_the_first_run_as_a_user() -> None:
    """Its default is the command of `make run`."""
    (command,), (entry,) = steps("CMD"), steps("ENTRYPOINT")
    made = re.search(r"^run:.*\n\t@\$\(BIN\)/(.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert made is not None
    assert [*json.loads(entry), *json.loads(command)] == shlex.split(made[1])
    assert steps("USER") == ["fedteddi"]


def run(*words: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without what this process imports from."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    return subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=kept | {"FEDTEDDI_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"} | variables,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def done(*words: str | Path, folder: Path, **variables: str) -> str:
    """Run a command that must succeed; return what it printed."""
    finished = run(*words, folder=folder, **variables)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def environment(folder: Path) -> Path:
    """Make an empty environment; return where its commands are."""
    done(sys.executable, "-m", "venv", folder / "venv", folder=folder)
    return folder / "venv" / "bin"


def bytes_in(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it."""
    folder = tmp_path_factory.mktemp("dist")
    done(sys.executable, "-m", "build", "--outdir", folder, ROOT, folder=folder)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.mark.slow
def test_the_wheel_is_small_and_complete(built: tuple[Path, Path]) -> None:
    """Settings, studies, templates, images: every file of the package. 4.4 MB of each are the embedded images."""
    sdist, wheel = built
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("fedteddi/")}
    files = {file.relative_to(SOURCE.parent) for file in SOURCE.rglob("*") if file.is_file()}
    assert inside == {file.as_posix() for file in files if "__pycache__" not in file.parts}
    assert {"fedteddi/py.typed", "fedteddi/experiments/fashion.toml", "fedteddi/studies/page.md.j2"} <= inside
    assert "fedteddi/learning/datasets/embedded/fashion_mnist.npz" in inside
    with tarfile.open(sdist) as archive:
        tops = {Path(name).parts[1] for name in archive.getnames()}
    assert tops == {"src", "PKG-INFO", "pyproject.toml", "constraints.txt", "README.md", "CHANGELOG.md"} | {
        "LICENSE",
        ".gitignore",
    }
    assert max(sdist.stat().st_size, wheel.stat().st_size) < 6 * MEGABYTE


@pytest.mark.slow
def test_the_core_is_light_and_works(built: tuple[Path, Path], tmp_path: Path) -> None:
    """All commands and names, as tests/test_extras.py tries them with the extras hidden; here there are none."""
    bin = environment(tmp_path)
    before = bytes_in(tmp_path / "venv")
    done(bin / "pip", "install", "--constraint", ROOT / "constraints.txt", built[1], folder=tmp_path)
    assert bytes_in(tmp_path / "venv") - before < 250 * MEGABYTE
    held = {
        package["name"].lower()
        for package in json.loads(done(bin / "pip", "list", "--format=json", folder=tmp_path))
    }
    assert not held & {"torch", "pandas", "matplotlib", "safetensors", "pooch", "jinja2", "flwr", "ray"}
    work = tmp_path / "work"
    work.mkdir()
    done(bin / "python", "-P", ROOT / "tests" / "core_only.py", folder=work)


@pytest.mark.slow
def test_the_steps_of_the_dockerfile_lead_to_a_simulation(tmp_path: Path) -> None:
    """What it copies is copied, what it runs with pip is run in an empty environment; then its command, for two rounds.

    PyTorch comes from where this machine's pip looks for it, in place of PyTorch's own index.
    """
    bin = environment(tmp_path)
    repository = "git init -q && git -c user.name=me -c user.email=me commit -q --allow-empty -m mine"
    done("sh", "-c", repository, folder=tmp_path)  # a user's own, whose revision is not ours
    for sources, target in copied():
        _copy(sources, target, tmp_path)
    arguments = dict(step.split("=", 1) for step in steps("ARG"))
    arguments |= {"TORCH_INDEX": tmp_path.as_uri(), "PATH": f"{bin}:{os.environ['PATH']}"}
    for step in steps("RUN"):
        if step.startswith("pip "):
            there = re.sub(
                r"(?<!\S)(?=/)|(?<=echo )(?=/)", str(tmp_path), step
            )  # / is the folder of this test
            done("sh", "-ec", there, folder=tmp_path, **arguments)

    (command,) = steps("CMD")
    first = done(bin / "fedteddi", *json.loads(command), "--rounds", "2", folder=tmp_path)
    assert "all rounds are done; records in runs/first" in first
    assert (tmp_path / "runs/first/report/figure3-accuracy-frame1.png").stat().st_size > 1000
    (made_on,) = {file.read_text("utf-8") for file in tmp_path.glob("runs/first/fedteddi*/environment.json")}
    assert json.loads(made_on)["git_revision"] is None
    pinned = re.search(r"^torch==(.+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    version = done(bin / "python", "-c", "import torch; print(torch.__version__)", folder=tmp_path)
    assert pinned is not None
    assert version.strip().partition("+")[0] == pinned[1]

    refused = run(bin / "fedteddi", "compare", "--ray", "--out", "other", folder=tmp_path)
    assert refused.returncode == 2
    assert "pip install 'fedteddi[ray]'" in " ".join(refused.stderr.split())
    refused = run(bin / "python", "-c", "import fedteddi.flower", folder=tmp_path)
    assert (
        "fedteddi.flower needs flwr, which is not installed: pip install 'fedteddi[flower]'" in refused.stderr
    )


def _copy(sources: list[str], target: str, root: Path) -> None:
    """Copy as the Dockerfile's COPY does: files into a folder that ends in /, a folder as the folder of that name."""
    for source in sources:
        inside = root / target.strip("/") / (source if target.endswith("/") else "")
        inside.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, inside, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, inside)
