"""What an installation takes on disk: the wheel is built, and installed with each extra into an empty folder.

    python scripts/install_sizes.py                            # the core, and each extra
    python scripts/install_sizes.py core sim                   # these
    python scripts/install_sizes.py --write docs/install.md    # put the table into the page

The versions are those of constraints.txt, and PyTorch comes from where pip finds it: for a build without CUDA, have
pip look at https://download.pytorch.org/whl/cpu as well (PIP_EXTRA_INDEX_URL).
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = "core"
TABLE = re.compile(r"(?<=<!-- sizes -->\n).*?(?=<!-- /sizes -->)", re.DOTALL)
MEGABYTE = 10**6


def extras() -> list[str]:
    """Return the extras that a user may want."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [name for name in project["optional-dependencies"] if name not in ("dev", "docs")]


def pip(command: str, *words: str) -> None:
    """Run pip; its warnings and errors are shown."""
    subprocess.run([sys.executable, "-m", "pip", command, "--quiet", *words], check=True)


def folder_bytes(folder: Path) -> int:
    """Return how much the files of a folder hold, compiled byte code among them; links are not followed."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def measured(wheel: Path, extra: str) -> tuple[str, ...]:
    """Install the wheel with an extra; return a row: command, packages, megabytes, the build of PyTorch."""
    asked = "fedteddi" if extra == CORE else f"fedteddi[{extra}]"
    with tempfile.TemporaryDirectory() as folder:
        what = str(wheel) + asked.removeprefix("fedteddi")
        pip("install", "--target", folder, "--constraint", str(ROOT / "constraints.txt"), what)
        found = {found.metadata["Name"]: found.version for found in distributions(path=[folder])}
        size = folder_bytes(Path(folder)) / MEGABYTE
    return f"`pip install '{asked}'`", str(len(found)), f"{size:,.0f}", found.get("torch", "–")


def table(chosen: list[str]) -> str:
    """Return the table of these extras."""
    with tempfile.TemporaryDirectory() as folder:
        pip("wheel", "--no-deps", "--wheel-dir", folder, str(ROOT))
        (wheel,) = Path(folder).glob("*.whl")
        head = ("command", "packages", "MB on disk", "PyTorch")
        rows = [head, ("---", "--:", "--:", "---"), *(measured(wheel, extra) for extra in chosen)]
        says = f"\nThe wheel itself has {wheel.stat().st_size / MEGABYTE:.1f} MB.\n"
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}, {os.uname().sysname} {os.uname().machine}.\n"
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + f"\n{says}{python}"


def main() -> None:
    """Print the table, or put it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("extras", nargs="*", help="core, or extras; default: the core and every extra")
    parser.add_argument("--write", type=Path, help="the page that has the table between two comments")
    given = parser.parse_args()
    known = [CORE, *extras()]
    if unknown := set(given.extras) - set(known):
        sys.exit(f"{sorted(unknown)[0]} is no extra: choose among {', '.join(known)}")
    found = table(given.extras or known)
    if given.write is None:
        print(found, end="")
        return
    page = given.write.read_text(encoding="utf-8")
    if not TABLE.search(page):
        sys.exit(f"{given.write} has no place for the table: add <!-- sizes --> and <!-- /sizes -->")
    given.write.write_text(TABLE.sub(lambda _: found, page), encoding="utf-8")


if __name__ == "__main__":
    main()
