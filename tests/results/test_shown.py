"""What a study and a run show of themselves: a short line, and HTML that needs no network."""

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from fedteddi.results.folder import Failure
from fedteddi.results.runs import RunRecord, Study
from made_study import made_run

STUDY = Study(
    tuple(made_run(rule, seed, [0.2, 0.5, 0.7]) for rule in ("fedteddi", "random") for seed in (0, 1))
)
VOID = ("img", "br")


class Tree(HTMLParser):
    """Notes every tag's attributes, and that each is closed by its own."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(page: str) -> list[tuple[str, dict[str, str | None]]]:
    tree = Tree()
    tree.feed(page)
    tree.close()
    assert tree.open == []
    return tree.found


def pictures(page: str) -> list[Image.Image]:
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    return [Image.open(BytesIO(base64.b64decode(one))) for one in found]


def test_a_study_is_a_line() -> None:
    assert (
        repr(STUDY)
        == str(STUDY)
        == (
            "Study: fedteddi, random × deadline 1.2 s × seed 0, 1; fashion-mnist, rounds [0, 10]; 4 of 4 runs finished"
        )
    )
    many = Study(tuple(made_run("random", seed, [0.2, 0.5]) for seed in range(50)))
    assert "seed (50 seeds)" in repr(many)
    assert len(repr(many)) < 200
    assert repr(Study(())) == "Study: no runs"


def test_a_run_is_a_line() -> None:
    run = STUDY.runs[0]
    assert repr(run) == (
        "RunRecord: fedteddi at 1.2 s, seed 0: fashion-mnist, 10 of 10 rounds; balanced 0.700, global 0.700"
    )
    half = replace(run, records=run.records[:7], finished=False)
    assert "5 of 10 rounds; balanced 0.500" in repr(half)
    failed = replace(half, failure=Failure(1, 6, "training diverged"))
    assert repr(failed).endswith("failed: training diverged")
    assert "1 failed" in repr(Study((*STUDY.runs[1:], failed)))
    assert repr(replace(run, records=(), finished=False)).endswith("0 of 10 rounds")


def test_a_study_in_a_notebook_has_its_table_and_a_figure_inside() -> None:
    page = STUDY._repr_html_()
    tags = parsed(page)
    assert "0.700 ± 0.000" in page
    (picture,) = pictures(page)
    assert picture.size[0] <= 1400
    assert len(np.unique(np.asarray(picture.convert("L")))) > 2  # something is drawn
    assert len(page) < 200_000
    addresses = [value for _, own in tags for key, value in own.items() if key in ("src", "href")]
    assert addresses
    assert all(value is not None and value.startswith("data:") for value in addresses)
    assert not {"script", "link", "iframe"} & {tag for tag, _ in tags}
    assert [own["alt"] for tag, own in tags if tag == "img"] == ["accuracy over the rounds"]


def test_a_run_in_a_notebook_has_a_figure_inside() -> None:
    page = STUDY.runs[0]._repr_html_()
    parsed(page)
    assert len(pictures(page)) == 1
    assert len(page) < 100_000


def test_what_has_nothing_to_draw_yet_still_shows_itself() -> None:
    run: RunRecord = replace(STUDY.runs[0], records=(), finished=False)
    for shown in (run, Study((run,)), Study(())):
        page = shown._repr_html_()
        parsed(page)
        assert pictures(page) == []


def test_names_are_not_taken_for_html() -> None:
    run = replace(STUDY.runs[0], settings=STUDY.runs[0].settings.changed(name="<script>alert(1)</script>"))
    for shown in (run, Study((run,))):
        page = shown._repr_html_()
        assert "script" not in {tag for tag, _ in parsed(page)}
        assert "&lt;script&gt;" in page


def test_a_sweep_shows_its_keys() -> None:
    runs = [replace(run, point={"scenario.alpha": alpha}) for alpha in (0.1, 1.0) for run in STUDY.runs]
    study = Study(tuple(runs))
    assert repr(study).startswith(
        "Study: fedteddi, random × scenario.alpha 0.1, 1 × deadline 1.2 s × seed 0, 1;"
    )
    page = study._repr_html_()
    assert "scenario.alpha" in page
    assert len(pictures(page)) == 1
    assert repr(study.runs[0]).startswith("RunRecord: fedteddi at 1.2 s, seed 0, scenario.alpha=0.1:")


@pytest.mark.parametrize("frames", [1, 2])
def test_showing_changes_nothing(frames: int) -> None:
    before = STUDY.table()
    for _ in range(frames):
        STUDY._repr_html_()
    assert STUDY.table().equals(before)


def test_a_figure_is_a_picture_in_a_notebook_by_itself() -> None:
    """IPython asks an object for `_repr_png_`; without it, figures made without pyplot are a line of text."""
    for figure in (STUDY.accuracy_figure(), STUDY.runs[0].figure()):
        shown = Image.open(BytesIO(figure._repr_png_()))  # type: ignore[attr-defined]
        assert shown.format == "PNG"
        assert shown.size[0] / shown.size[1] == pytest.approx(np.divide(*figure.get_size_inches()), rel=0.01)
