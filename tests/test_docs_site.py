"""The documentation's site: what is gathered, what the check finds, what each reference page must hold."""

import base64
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import fedteddi
from fedteddi.protocol.record import ATTRIBUTE

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GOOD = '<a href="#here">a</a><h1 id="here"></h1><a href="more/b.html#there">b</a><img src="more/c.png"><a href="https://x.org">x</a>'


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    """The scripts import one another as files of one folder."""
    sys.path.insert(0, str(ROOT / "scripts" / "docs_site"))
    names = ("check", "notebooks", "stage", "field_comments")
    yield {name: __import__(name) for name in names}
    sys.path.pop(0)
    for name in names:
        del sys.modules[name]


def site(folder: Path, page: str, style: str = "") -> Path:
    (folder / "more").mkdir()
    (folder / "more" / "b.html").write_text('<p id="there"><a href="../index.html">up</a></p>')
    (folder / "more" / "c.png").write_bytes(b"")
    (folder / "index.html").write_text(page)
    (folder / "a.css").write_text(style)
    return folder


def test_a_sound_site_has_no_faults(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    assert scripts["check"].faults(site(tmp_path, GOOD, "a { background: url(more/c.png) }")) == []


@pytest.mark.parametrize(
    ("page", "style", "fault"),
    [
        ('<a href="gone.html">a</a>', "", "index.html: leads to gone.html, which is not there"),
        (
            '<a href="more/b.html#no">a</a>',
            "",
            "index.html: leads to more/b.html#no, whose page has no such anchor",
        ),
        ('<a href="#no">a</a>', "", "index.html: leads to #no, whose page has no such anchor"),
        ('<img src="gone.png">', "", "index.html: leads to gone.png, which is not there"),
        ('<a href="../out.html">a</a>', "", "index.html: leads to ../out.html, which is not there"),
        ('<script src="//x.org/a.js"></script>', "", "index.html: fetches //x.org/a.js when it is read"),
        (
            '<link rel="icon" href="https://x.org/i">',
            "",
            "index.html: fetches https://x.org/i when it is read",
        ),
        (
            '<p style="background:url(https://x.org/p)">',
            "",
            "index.html: fetches https://x.org/p when it is read",
        ),
        ("", "@import 'https://x.org/f.css';", "a.css: fetches https://x.org/f.css when it is read"),
        ("", "a { src: url(gone.woff2) }", "a.css: leads to gone.woff2, which is not there"),
    ],
)
def test_each_fault_is_named(
    scripts: dict[str, ModuleType], tmp_path: Path, page: str, style: str, fault: str
) -> None:
    assert scripts["check"].faults(site(tmp_path, page, style)) == [fault]


def test_a_list_that_the_site_does_not_show_is_named(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    """GitHub makes a list of what follows a paragraph without an empty line; Python-Markdown does not."""
    (tmp_path / "a.md").write_text("Two things:\n- one\n- two\n")
    (tmp_path / "a.html").write_text("<article><p>Two things: - one - two</p></article>")
    assert scripts["check"].lost(tmp_path, tmp_path) == [
        "a.md: 2 <li> on GitHub, 0 on the site (blank lines?)"
    ]
    (tmp_path / "a.html").write_text("<article><ul><li>one<li>two</ul></article>")
    assert scripts["check"].lost(tmp_path, tmp_path) == []


def test_a_table_keeps_its_numbers_and_pipes(scripts: dict[str, ModuleType]) -> None:
    row = scripts["stage"]._row
    assert row("| `a=b\\|c` | \\|x\\| | 1 ± 2 |") == "| `a=b|c` | \\|x\\| | 1\u00a0±\u00a02 |"
    assert row("1 ± 2 `a\\|b`") == "1 ± 2 `a\\|b`"


def test_links_out_of_docs_lead_to_pages_of_the_site(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    """A page at the root gets its page, a file one with its text, a folder a list; a link shows a title."""
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "rule.py").write_text("x = 1\n")
    for name in scripts["stage"].ROOT_PAGES:
        (tmp_path / name).write_text("[deep](docs/deep/a.md#b) [a.md](docs/deep/a.md)")
    links = "[1](../../CHANGELOG.md) [2](../../src/rule.py) [3](../../src) [4](../../gone.py)"
    links += " [5](https://x.org) [6](#b) [7](../../examples/notebooks/b.ipynb)"
    (tmp_path / "docs" / "deep" / "a.md").write_text(f"# Depth\n{links}")
    (tmp_path / "docs" / "runs.jsonl.gz").write_bytes(b"")
    (tmp_path / "a.py").write_text("y = 2\n")
    (tmp_path / "examples" / "notebooks").mkdir(parents=True)
    cells = [{"cell_type": "markdown", "source": ["[a.md](../../a.py) [up](../../docs/deep/a.md#b)"]}]
    (tmp_path / "examples" / "notebooks" / "b.ipynb").write_text(json.dumps({"cells": cells}))
    pages = tmp_path / "build"
    scripts["stage"].stage(pages, tmp_path)
    assert (pages / "deep" / "a.md").read_text() == (
        "# Depth\n[1](../changes.md) [2](../source/src/rule.py.md) [3](../source/src/index.md) [4](../../gone.py)"
        " [5](https://x.org) [6](#b) [7](../notebooks/b.md)\n"
    )
    assert (pages / "notebooks" / "b.md").read_text() == "[a.md](../source/a.py.md) [up](../deep/a.md#b)\n"
    assert (pages / "changes.md").read_text() == "[deep](deep/a.md#b) [Depth](deep/a.md)\n"
    assert "````python\nx = 1\n````" in (pages / "source" / "src" / "rule.py.md").read_text()
    assert "- [rule.py](rule.py.md)" in (pages / "source" / "src" / "index.md").read_text()
    assert not (pages / "runs.jsonl.gz").exists()


def test_a_notebook_becomes_a_page(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    """Text, code, and of each output its richest form; what went to stderr is left out, an error is one here."""
    plain = {"text/plain": ["Study"]}
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]},
        {"output_type": "stream", "name": "stderr", "text": ["noise"]},
        {"output_type": "display_data", "data": plain | {"image/png": base64.b64encode(b"picture").decode()}},
        {"output_type": "execute_result", "data": plain | {"text/html": ["<b>3</b>\n\n", "runs"]}},
        {"output_type": "execute_result", "data": plain},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# First\n", "look"]},
        {"cell_type": "code", "source": ["x = 1"], "outputs": outputs},
        {"cell_type": "code", "source": [], "outputs": []},
    ]
    notebook = tmp_path / "first.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    page = tmp_path / "pages" / "first.md"
    scripts["notebooks"].notebook_page(notebook, page)
    assert page.read_text() == (
        "# First\nlook\n\n````python\nx = 1\n````\n\n````text\none\ntwo\n````\n\n![output](first-0.png)\n\n"
        "<div>\n<b>3</b>\nruns\n</div>\n\n````text\nStudy\n````\n"
    )
    assert (page.parent / "first-0.png").read_bytes() == b"picture"
    outputs[0] = {"output_type": "error", "ename": "KeyError", "evalue": "'x'"}
    notebook.write_text(json.dumps({"cells": cells}))
    with pytest.raises(ValueError, match="first: a cell ends with KeyError: 'x'"):
        scripts["notebooks"].notebook_page(notebook, page)


def test_the_comment_of_a_field_is_found(scripts: dict[str, ModuleType]) -> None:
    lines = [
        "    a: int = 3  # how many",
        "    # One line,",
        "    # and another.",
        "    b: int",
        "",
        "    c: int = f(",
        "        1",
        "    )  # why",
    ]
    told = scripts["field_comments"].comment_of
    assert told(lines, 1, 1) == "how many"
    assert told(lines, 4, 4) == "One line, and another."
    assert told(lines, 6, 8) == "why"
    assert told(lines, 5, 5) == ""


def test_every_page_is_in_the_navigation_once() -> None:
    def leaves(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [
            leaf for one in (entry.values() if isinstance(entry, dict) else entry) for leaf in leaves(one)
        ]

    named = leaves(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"])
    there = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    there += [f"notebooks/{one.stem}.md" for one in (ROOT / "examples" / "notebooks").glob("*.ipynb")]
    assert sorted(named) == sorted([*there, "architecture.md", "changes.md", "contributing.md"])


def test_the_api_page_has_every_public_name_once() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: fedteddi\.(\w+)$", page, re.MULTILINE)) == sorted(fedteddi.__all__)


def test_every_key_of_a_round_is_explained() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    rows = page.split("## A line of `rounds.jsonl`")[1].split("\n\n**")[0]
    assert set(ATTRIBUTE) <= set(re.findall(r"`(\w+)`", rows))


def test_the_citation_is_about_this_version() -> None:
    """Its form was checked with cffconvert 2.0.0."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cited["cff-version"], cited["version"]) == ("1.2.0", fedteddi.__version__)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (cited["license"], cited["keywords"]) == (project["license"], project["keywords"])
    assert "2509.07342" in cited["references"][0]["url"]
