"""Gather the site's pages: docs/, those at the repository's root, the notebooks, and every file that they link to."""

import os
import re
import shutil
from pathlib import Path

from notebooks import notebook_page

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "build" / "pages"
ROOT_PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
}
SHOWN = {".md", ".png", ".svg", ".css", ".js"}  # of docs/; summaries of runs stay in the repository
SOURCE = "source"  # the folder of the pages that show files of the repository
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".csv": "text"}
LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<to>[^()\s#]+)(?P<anchor>(?:#[^()\s]*)?)\)")


def stage(pages: Path = PAGES, root: Path = ROOT) -> None:
    """Make the folder of pages anew."""
    shutil.rmtree(pages, ignore_errors=True)
    docs = root / "docs"
    sources: set[Path] = set()
    for file in sorted(docs.rglob("*")):
        if file.suffix in SHOWN:
            _place(file, pages / file.relative_to(docs), pages, root, sources)
    for name, page in ROOT_PAGES.items():
        _place(root / name, pages / page, pages, root, sources)
    for notebook in sorted((root / "examples" / "notebooks").glob("*.ipynb")):
        _place(notebook, pages / _page_of(notebook, root), pages, root, sources)
    for source in sorted(_with_contents(sources)):
        _show(source, pages / _page_of(source, root), root)


def _place(file: Path, target: Path, pages: Path, root: Path, sources: set[Path]) -> None:
    """Copy a file; of a page or notebook, make the page of the site."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".ipynb":
        notebook_page(file, target)
    elif file.suffix != ".md":
        shutil.copy(file, target)
        return
    text = (target if file.suffix == ".ipynb" else file).read_text(encoding="utf-8")
    lines = _led(text, file, target, pages, root, sources).splitlines()
    target.write_text("\n".join(map(_row, lines)) + "\n", encoding="utf-8")


def _led(text: str, file: Path, target: Path, pages: Path, root: Path, sources: set[Path]) -> str:
    """Return a page's text with its links out of docs/ led to where their targets are on the site."""

    def led(link: re.Match[str]) -> str:
        aim = (file.parent / link["to"]).resolve()
        if not aim.exists() or not aim.is_relative_to(root):
            return link[0]  # an address, or a broken link, which the build names
        page = _page_of(aim, root)
        if page.parts[0] == SOURCE:
            sources.add(aim)
        text = link["text"]
        if (
            text.endswith(".md") and aim.suffix == ".md" and link["anchor"] == ""
        ):  # on the site, pages have titles
            text = aim.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        return f"[{text}]({os.path.relpath(pages / page, target.parent)}{link['anchor']})"

    return LINK.sub(led, text)


def _row(line: str) -> str:
    """Return a table's row as the site wants it: numbers on one line, and in code | without a backslash."""
    if not line.startswith("|"):
        return line
    return re.sub(r"`[^`]+`", lambda code: code[0].replace("\\|", "|"), line.replace(" ± ", "\u00a0±\u00a0"))


def _page_of(file: Path, root: Path) -> Path:
    """Return where on the site a file of the repository is."""
    inside = file.relative_to(root)
    if str(inside) in ROOT_PAGES:
        return Path(ROOT_PAGES[str(inside)])
    if inside.suffix == ".ipynb":
        return Path("notebooks", f"{inside.stem}.md")
    if inside.parts[0] == "docs" and file.suffix in SHOWN:
        return Path(*inside.parts[1:])
    return Path(SOURCE, inside / "index.md" if file.is_dir() else f"{inside}.md")


def _with_contents(sources: set[Path]) -> set[Path]:
    """Return files and folders with the files in these folders."""
    inside = {
        file for folder in sources if folder.is_dir() for file in folder.iterdir() if file.suffix in LANGUAGES
    }
    return sources | inside


def _show(source: Path, target: Path, root: Path) -> None:
    """Write the page that shows a file, or lists a folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {source.relative_to(root)}\n\n"
    if source.is_dir():
        names = sorted(file.name for file in source.iterdir() if file.suffix in LANGUAGES)
        body = "\n".join(f"- [{name}]({name}.md)" for name in names)
    else:
        body = (
            f"````{LANGUAGES.get(source.suffix, 'text')}\n{source.read_text(encoding='utf-8').rstrip()}\n````"
        )
    target.write_text(head + body + "\n", encoding="utf-8")
