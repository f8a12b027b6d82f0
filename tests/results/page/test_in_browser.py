"""The page in a real browser: no error, no request, and controls that change what is drawn."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fedteddi
from fedteddi.results.page.build import write_page
from fedteddi.settings import load_experiment
from fedteddi.simulation.retold import Retelling
from made_folder import made_study

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
FIGURES = ("accuracy", "classes", "timeline-0", "timeline-1", "fairness", "data-0", "data-1", "data-2")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = made_study(tmp_path_factory.mktemp("browser") / "runs")
    write_page(folder, folder / "page.html")
    return folder / "page.html"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about real runs, whose decisions are told."""
    folder = tmp_path_factory.mktemp("played") / "runs"
    settings = load_experiment("evolving").changed(
        rounds=[3, 3, 0],
        scenario__clients=8,
        scenario__samples_per_client=40,
        scenario__arrivals=[{"frame": 1, "clients": 3, "classes": [6, 7], "samples": 20}],
        training__local_steps=2,
        training__batch_size=16,
        radio__total_hz=8e5,
        evaluation__test_images=60,
        evaluation__loss_samples=60,
    )
    fedteddi.compare(settings, schedulers=["fedteddi", "random"], seeds=[0], out=folder)
    write_page(folder, folder / "page.html", Retelling())
    return folder / "page.html"


class Seen:
    """An open page, and everything it said or asked for."""

    def __init__(self, browser: Any, file: Path, viewport: dict[str, int], scheme: str = "light") -> None:
        self.context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(error.message))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())
        self.file = file

    def text(self, where: str) -> str:
        return str(self.page.text_content(where))

    def drawn(self, plot: str) -> list[Any]:
        """Return the lines of a chart as they are in the DOM: their paths."""
        return list(
            self.page.eval_on_selector_all(
                f"#plot-{plot} .scatterlayer .trace path.js-line",
                "lines => lines.map(line => line.getAttribute('d'))",
            )
        )

    def close(self) -> None:
        """Nothing was said and nothing asked for, whatever the test did."""
        assert self.said == []
        assert self.asked == [self.file.as_uri()]
        self.context.close()


@pytest.fixture
def seen(browser: Any, made: Path) -> Iterator[Seen]:
    page = Seen(browser, made, DESKTOP)
    yield page
    page.close()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_is_drawn_and_nothing_is_wider_than_the_screen(
    browser: Any, made: Path, viewport: dict[str, int], scheme: str
) -> None:
    page = Seen(browser, made, viewport, scheme)
    for figure in FIGURES:
        box = page.page.locator(f"#plot-{figure} .main-svg").first.bounding_box()
        assert min(box["width"] - 200, box["height"] - 100) > 0, figure
        assert 0 <= box["x"] <= viewport["width"] - box["width"], figure
    assert page.page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    assert page.page.locator(".disc").count() == 2
    ground = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 200) == (scheme == "dark")
    assert page.text("h1") == "65% balanced after 12.5 rounds (fedteddi, random); two seeds, frame 2"
    assert "nothing" in page.text("#foot")
    page.close()


def test_lines_can_be_switched_off_and_on(seen: Seen) -> None:
    """Two schedulers: two mean lines, and a band for each with two edges."""
    assert len(seen.drawn("accuracy")) == 6
    seen.page.click("#accuracy .chip[data-scheduler=random]")
    assert len(seen.drawn("accuracy")) == 3
    assert seen.page.get_attribute("#accuracy .chip[data-scheduler=random]", "aria-pressed") == "false"
    assert seen.page.locator("#fairness-table tbody tr").count() == 1
    seen.page.click("#band [data-value=false]")
    assert len(seen.drawn("accuracy")) == 1
    seen.page.click("#accuracy .chip[data-scheduler=random]")
    assert len(seen.drawn("accuracy")) == 2


def test_axis_accuracy_frame_and_deadline_change_the_curves(seen: Seen) -> None:
    """A round takes 0.8 s and global is balanced + 0.02: there the paths are alike, and the ticks are not."""

    def drawn() -> tuple[list[Any], list[Any]]:
        ticks = seen.page.locator("#plot-accuracy .xtick text, #plot-accuracy .ytick text")
        found = ticks.evaluate_all("all => all.map(one => [one.textContent, one.getAttribute('transform')])")
        return seen.drawn("accuracy"), found

    first = last = drawn()
    for selector, title in (
        ("#axis [data-value=seconds]", "modelled seconds"),
        ("#axis [data-value=joules]", "energy in J"),
        ("#axis [data-value=bits]", "uplink in bit"),
        ("#axis [data-value=rounds]", "rounds since the run began"),
        ("#accuracy-of [data-value=global]", "rounds since the run began"),
        ("#accuracy-of [data-value=new]", "rounds since the run began"),
        ("#frame [data-value='1']", "rounds of frame 1"),
    ):
        seen.page.click(selector)
        assert seen.text("#plot-accuracy .xtitle") == title
        assert seen.page.get_attribute(selector, "aria-pressed") == "true"
        assert drawn() != last
        last = drawn()
        if selector == "#axis [data-value=rounds]":
            assert last == first
    seen.page.click("#axis [data-value=seconds]")
    last = drawn()
    seen.page.select_option("#condition", label="deadline 1.2 s")
    assert drawn() != last
    assert seen.text("#lead").startswith("Deadline 1.2 s.")


def test_frame_boundaries_are_marked_over_all_frames_only(seen: Seen) -> None:
    assert seen.page.locator("#plot-accuracy .annotation").all_text_contents() == ["frame 2"]
    seen.page.click("#frame [data-value='2']")
    assert seen.page.locator("#plot-accuracy .annotation").count() == 0


def rings(seen: Seen, at: int) -> list[str]:
    """Return the clients with a ring in one of the two discs."""
    found = seen.page.locator("#discs .disc").nth(at).locator(".client.scheduled")
    return list(found.evaluate_all("all => all.map(one => one.dataset.client)"))


def test_the_cell_shows_the_scheduled_of_the_round(seen: Seen, made: Path) -> None:
    from fedteddi.results.reading import read_run

    runs = [read_run(made.parent / f"{name}-d0.8-s0") for name in ("fedteddi", "random")]
    for number in (1, 4):
        seen.page.locator("#round").fill(str(number - 1))
        assert seen.text("#round-words") == f"frame 1, round {number} of 20"
        for at, run in enumerate(runs):
            (record,) = (r for r in run.records if (r.frame, r.round) == (1, number))
            assert sorted(map(int, rings(seen, at))) == sorted(record.clients)
            assert f"{len(record.clients)} of 12 scheduled" in seen.text(f"#discs > div:nth-child({at + 1})")
            sizes = (
                seen.page.locator("#discs .disc")
                .nth(at)
                .locator(".client.scheduled")
                .evaluate_all(
                    "all => all.map(one => [one.dataset.client, Number(one.querySelector('.ring').getAttribute('r'))])"
                )
            )
            by_size = [int(client) for client, _ in sorted(sizes, key=lambda pair: pair[1])]
            granted = dict(zip(record.clients, record.bandwidth_hz, strict=True))
            assert [round(granted[n] / 2e4) for n in by_size] == sorted(
                round(hz / 2e4) for hz in granted.values()
            )


def test_play_moves_on_and_pause_stops(seen: Seen) -> None:
    seen.page.click("#play")
    assert seen.text("#play") == "Pause"
    seen.page.wait_for_function("document.getElementById('round').value >= 2")
    seen.page.click("#play")
    assert seen.text("#play") == "Play"
    stopped = seen.page.input_value("#round")
    seen.page.wait_for_timeout(900)
    assert seen.page.input_value("#round") == stopped


def test_schedulers_seeds_and_clients_can_be_chosen(seen: Seen) -> None:
    first = rings(seen, 0)
    seen.page.select_option("#cell-seed", "1")
    assert rings(seen, 0) != first
    seen.page.select_option("#cell-a", "random")
    assert seen.page.locator("#discs .disc").nth(0).get_attribute("data-scheduler") == "random"
    assert seen.page.locator("#discs .disc").nth(1).get_attribute("data-scheduler") == "fedteddi"
    assert seen.text("#timeline h3 >> nth=0") == "random"
    seen.page.locator("#discs .disc").nth(0).locator(".client").first.click(force=True)
    assert seen.text("#client-detail").startswith("Client ")


def test_the_timeline_is_sorted_as_asked(seen: Seen) -> None:
    def labels() -> list[str]:
        return list(seen.page.locator("#plot-timeline-0 .ytick").all_text_contents())

    before = labels()
    seen.page.select_option("#rows-by", "fresh")
    assert labels() != before
    assert seen.page.locator("#fairness-table tbody tr").count() == 2


def test_one_decision_of_real_runs_is_told(browser: Any, played: Path) -> None:
    from fedteddi.results.reading import read_run

    seen = Seen(browser, played, DESKTOP)
    run = read_run(played.parent / "fedteddi-d1-s0")
    record = next(r for r in run.records if (r.frame, r.round) == (0, 2))
    assert "the proven optimum" in seen.text("#decision-words")
    seen.page.select_option("#decision-round", "1")
    words = seen.text("#decision-words")
    total = float(f"{record.objective['total']:.4g}")
    assert f"P3 {total:g} = variance ".replace("-", "−") in words
    assert "Stopped because: " in words
    assert "computed again from seed and record" in words
    assert "Gap: " in words or "as good as " in words
    clients = seen.page.eval_on_selector_all(
        "#admissions tbody tr", "rows => rows.map(row => row.dataset.client)"
    )
    assert list(map(int, clients)) == list(record.clients)
    assert "Δ divergence" in seen.text("#admissions thead")
    seen.page.click("#decision-on")
    assert "frame 0, round 3 of 3" in seen.text("#decision .say")
    assert seen.text("#decision-words") != words
    seen.page.select_option("#decider", "random")
    assert "ranks clients" in seen.text("#decision-words")
    seen.close()


def test_the_theme_can_be_changed_and_the_figures_follow(seen: Seen) -> None:
    def ink() -> str:
        return str(
            seen.page.evaluate("getComputedStyle(document.querySelector('#plot-accuracy .xtitle')).fill")
        )

    before = ink()
    seen.page.click("#theme")
    assert ink() != before
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 20, 23)"


def test_a_folder_without_runs_is_a_page_that_says_so(browser: Any, tmp_path: Path) -> None:
    write_page(tmp_path, tmp_path / "page.html")
    seen = Seen(browser, tmp_path / "page.html", PHONE)
    assert seen.text("h1") == "No runs to show"
    assert "holds no run that can be read" in seen.text("#notes")
    seen.close()
