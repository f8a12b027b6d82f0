"""Play the tutorial: run its commands and programs in order in an empty folder, and put their real output below them.

    python scripts/tutorial.py --write docs/tutorial.md     # or make tutorial

A `console` block holds commands (after `$ `) with their output. A `python` block that begins with `# name.py` is that
file; any other one is run, and its `# →` lines are what it printed. Pictures are copied from the folder they ran in;
NAME-ID.png without such a file is that element of NAME.html in Chromium, and stays as it is where there is no Chromium.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

BLOCK = re.compile(r"```(console|python)\n(.*?)```|!\[[^\]]*\]\((tutorial/[^)]+)\)", re.DOTALL)
COLUMNS = "100"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SCREEN = {"width": 1000, "height": 6000}  # so high that nothing sticks to its edge
# What a library prints to find its own faults, whatever it is asked (HiGHS in SciPy 1.17).
NOISE = "HighsMipSolverData::"


def played(page: str, folder: Path, pictures: Path | None = None) -> str:
    """Return the page with the outputs that its commands have now, run in a folder; copy its pictures to another."""

    def play(block: re.Match[str]) -> str:
        if block[3]:
            if pictures is not None:
                pictures.mkdir(exist_ok=True)
                _picture(folder, pictures / Path(block[3]).name)
            return block[0]
        if block[1] == "console":
            return f"```console\n{''.join(_commands(block[2], folder))}```"
        return f"```python\n{_program(block[2], folder)}```"

    return BLOCK.sub(play, page)


def _picture(folder: Path, target: Path) -> None:
    """Copy a picture that the commands made, or photograph the page of that name."""
    if made := list(folder.rglob(target.name)):
        shutil.copy(made[0], target)
        return
    name, _, element = target.stem.partition("-")
    (page,) = folder.rglob(f"{name}.html")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"{target} is left as it is: there is no Chromium", file=sys.stderr)
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        window = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = window.new_page(viewport=SCREEN, color_scheme="light")
        tab.goto(page.as_uri())
        tab.wait_for_timeout(3000)  # until all figures are drawn
        tab.locator(f"#{element}").screenshot(path=target)
        window.close()
    Image.open(target).convert("RGB").quantize(256).save(target, optimize=True)


def _commands(text: str, folder: Path) -> list[str]:
    return [f"$ {line[2:]}\n{_run(line[2:], folder)}" for line in text.splitlines() if line.startswith("$ ")]


def _program(text: str, folder: Path) -> str:
    first = text.splitlines()[0]
    if named := re.fullmatch(r"# (\w+\.py)", first):
        (folder / named[1]).write_text(text, encoding="utf-8")
        return text
    source = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("# →"))
    (folder / "program.py").write_text(source, encoding="utf-8")
    said = _run("python program.py", folder)
    return source + "".join(f"# → {line}\n" for line in said.splitlines())


def _run(command: str, folder: Path) -> str:
    """Return what a command prints, without the spaces at the ends of lines."""
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=os.environ
        | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "FEDTEDDI_CACHE": str(folder / "cache"),
            "COLUMNS": COLUMNS,
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"$ {command}\n{done.stdout}{done.stderr}")
    lines = [line for line in done.stdout.strip("\n").splitlines() if not line.startswith(NOISE)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def main() -> None:
    """Write the tutorial again."""
    parser = argparse.ArgumentParser(description="Play the tutorial.")
    parser.add_argument(
        "--write", type=Path, required=True, metavar="PAGE", help="the page to play, and to write"
    )
    page = parser.parse_args().write
    with tempfile.TemporaryDirectory() as folder:
        text = played(page.read_text(encoding="utf-8"), Path(folder), page.with_suffix(""))
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
