"""The commands as a user types them."""

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import fedteddi
from cli_runner import Outcome
from fedteddi import example_round, make_scheduler, scheduler_names
from fedteddi.cli.output import console
from fedteddi.cli.tables import print_table
from fedteddi.protocol.round_json.reports import write_round
from fedteddi.results.reading import read_run
from fedteddi.results.runs import RunRecord
from fedteddi.schedulers.schedule import choice_of, first_state, remembers
from fedteddi.simulation.clients import Clients

Cli = Callable[..., Outcome]
ANSWER = json.loads(
    files("fedteddi.protocol.round_json").joinpath("schedule.schema.json").read_text(encoding="utf-8")
)
EXAMPLE = Path(__file__).parents[2] / "examples" / "my_rule.py"


DEADLINE_S = 0.8  # at which client 0 cannot be scheduled


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    file = tmp_path / "round.json"
    file.write_text(write_round(example_round(0, deadline_s=DEADLINE_S)))
    return file


@pytest.mark.parametrize("name", scheduler_names())
def test_schedule_json_is_the_librarys_answer(cli: Cli, reports: Path, name: str) -> None:
    rule = make_scheduler(name)
    done = cli("schedule", reports, "--scheduler", name, "--seed", 3, "--json")
    assert done.code == 0
    assert ("keep its state with --state FILE" in done.err) == remembers(rule) == bool(done.err)
    answer = json.loads(done.out)
    jsonschema.validate(answer, ANSWER)
    round = example_round(0, deadline_s=DEADLINE_S)
    expected, _ = choice_of(rule, round, np.random.default_rng(3), first_state(rule, 30))
    assert tuple(answer["clients"]) == expected.clients
    assert tuple(answer["bandwidth_hz"]) == expected.bandwidth_hz
    together = max(answer["finish_s"], default=DEADLINE_S)
    assert answer["finish_s"] == pytest.approx([together] * len(expected.clients))
    # At B* that is the deadline; minimum-latency alone shares the whole band by default.
    assert together < DEADLINE_S if name == "minimum-latency" else together == pytest.approx(DEADLINE_S)
    # Rules without an objective of their own are judged by FedTeddi's.
    judge = make_scheduler(name if hasattr(make_scheduler(name), "objective") else "fedteddi")
    if expected.clients:
        terms = judge.objective(round).terms(expected.clients)  # type: ignore[attr-defined]
        assert answer["objective"]["total"] == pytest.approx(terms.total)
    else:  # client 0 has drifted most and needs more than the band, which ends a ranking (docs/paper.md D1)
        assert (name, answer["objective"]) == ("pure-drift", None)
    assert answer["infeasible"] == [{"client": 0, "reason": "needs 61.3 MHz, the band has 20 MHz"}]


def test_schedule_prints_a_table(cli: Cli, reports: Path) -> None:
    done = cli("schedule", reports)
    assert done.code == 0
    assert "fedteddi, frame 1, round 1 of 300: 8 of 30 clients upload" in done.out
    assert "stopped because: anybody else would raise the objective" in done.out
    assert re.search(r"^ +13 +0 5 \+7 +7\.33 +5\.739 +0\.800", done.out, re.MULTILINE)
    assert "client 0 needs 61.3 MHz, the band has 20 MHz" in done.out


def test_a_rule_with_an_objective_of_its_own_is_not_told_in_the_papers_words(cli: Cli, reports: Path) -> None:
    done = cli("schedule", reports, "--scheduler", "fedteddi-plus")
    line = r"^objective (\S+) = size (\S+) \+ distance (\S+)   \(lower is better\)$"
    parts = re.search(line, done.out, re.MULTILINE)
    assert parts is not None
    total, size, distance = map(float, parts.groups())
    assert total == pytest.approx(size + distance, abs=2e-4)
    assert size == pytest.approx(0.3 / 11**0.5, abs=5e-5)  # ν/√|S|
    assert "11 of 30 clients upload" in done.out
    assert "P3" not in done.out
    assert "variance" not in done.out
    assert "Δ drift" not in done.out  # it does not count
    assert re.search(r"done at s +Δ size +Δ distance *$", done.out, re.MULTILINE)


def test_schedule_refuses_a_bound_that_has_no_band(cli: Cli, reports: Path) -> None:
    done = cli("schedule", reports, "--scheduler", "everyone")
    assert done.code == 2
    assert "everyone is a reference bound without band or deadline: run it with compare" in done.err


def test_schedule_reads_standard_input(cli: Cli) -> None:
    text = cli("example", "--seed", 1).out
    assert cli("schedule", "-", stdin=text).code == 0
    assert json.loads(text)["deadline_s"] == 1.0


def test_options_reach_the_rule(cli: Cli, reports: Path) -> None:
    words = ["-o", "search=exact", "-o", "lambda0=0.5", "--option", "spare_band=share"]
    answer = json.loads(cli("schedule", reports, "--json", *words).out)
    assert answer["options"]["search"] == "exact"
    assert answer["options"]["lambda0"] == 0.5
    assert answer["bound"] <= answer["objective"]["total"]
    assert sum(answer["bandwidth_hz"]) == pytest.approx(20e6)
    assert max(answer["finish_s"]) < 1.0


def test_a_rule_from_a_file(cli: Cli, reports: Path) -> None:
    done = cli("schedule", reports, "-s", f"{EXAMPLE}:ShortestUploads")
    assert done.code == 0
    assert "shortest-uploads" in done.out


def test_what_a_rule_prints_does_not_spoil_the_json(cli: Cli, reports: Path, tmp_path: Path) -> None:
    noisy = tmp_path / "noisy.py"
    noisy.write_text(
        EXAMPLE.read_text().replace("        order =", "        print('thinking…')\n        order =")
    )
    done = cli("schedule", reports, "-s", f"{noisy}:ShortestUploads", "--json")
    assert json.loads(done.out)["scheduler"] == "shortest-uploads"
    assert "thinking…" in done.err


def test_infeasible_clients_come_with_their_reason(cli: Cli) -> None:
    given = json.loads(write_round(example_round(0, deadline_s=DEADLINE_S), with_needed_hz=False))
    given["compute_s"][4] = 1.5
    given["channel_gain"][5] = 1e-15
    answer = json.loads(cli("schedule", "-", "--json", stdin=json.dumps(given)).out)
    assert {row["client"]: row["reason"] for row in answer["infeasible"]} == {
        0: "needs 61.3 MHz, the band has 20 MHz",
        4: "computes for 1.5 s, the deadline is 0.8 s",
        5: "channel too weak: no bandwidth meets the deadline",
    }


def test_a_deadline_nobody_can_meet_is_no_error(cli: Cli) -> None:
    """Exit code 0, an empty schedule, and the warning names a deadline that does work."""
    given = json.loads(write_round(example_round(0), with_needed_hz=False)) | {"deadline_s": 0.1}
    done = cli("schedule", "-", "--json", stdin=json.dumps(given))
    assert done.code == 0
    answer = json.loads(done.out)
    jsonschema.validate(answer, ANSWER)
    assert answer["clients"] == []
    assert answer["objective"] is None
    smallest = re.search(
        r"warning: deadline_s=0\.1: no client can finish in time; the smallest feasible is ([\d.]+)", done.err
    )
    assert smallest
    works = cli("schedule", "-", "--json", stdin=json.dumps(given | {"deadline_s": float(smallest[1])}))
    assert len(json.loads(works.out)["clients"]) == 1
    barely_not = cli(
        "schedule", "-", "--json", stdin=json.dumps(given | {"deadline_s": 0.998 * float(smallest[1])})
    )
    assert json.loads(barely_not.out)["clients"] == []


def test_a_band_nobody_fits_is_no_error_either(cli: Cli) -> None:
    given = json.loads(write_round(example_round(0)))
    for key in ("compute_s", "deadline_s", "model_bits"):
        del given[key]
    done = cli("schedule", "-", stdin=json.dumps(given | {"total_hz": 10.0}))
    assert done.code == 0
    assert "warning: total_hz=10: no client fits; the smallest needed_hz is" in done.err
    done = cli("schedule", "-", stdin=json.dumps(given | {"needed_hz": [None] * 30}))
    assert "every needed_hz is null" in done.err


def test_schedulers_lists_all_with_rule_options_and_source(cli: Cli) -> None:
    listed = cli("schedulers").out
    for name in scheduler_names():
        assert re.search(rf"^{name}$", listed, re.MULTILINE)
    flat = " ".join(listed.split())
    assert "search=greedy|refined|exact" in flat
    assert "needs update_norm" in flat
    assert "Cho, Wang, Joshi, AISTATS 2022" in flat


def test_cite_prints_each_entry_once(cli: Cli) -> None:
    bibtex = cli("schedulers", "--cite").out
    keys = re.findall(r"^@\w+\{(\w+),", bibtex, re.MULTILINE)
    assert len(keys) == len(set(keys)) == 17
    assert bibtex.count("{") == bibtex.count("}")


def test_check_passes_ours_and_names_what_a_rule_breaks(cli: Cli, tmp_path: Path) -> None:
    done = cli("check", "pure-drift", "--rounds", 10)
    assert done.code == 0
    assert "keeps all 7 invariants on 10 random rounds." in done.out
    greedy = tmp_path / "greedy.py"
    greedy.write_text(EXAMPLE.read_text().replace("order[:count]", "order[: count + 1]"))
    done = cli("check", f"{greedy}:ShortestUploads", "--save", tmp_path / "broken.json")
    assert done.code == 1
    assert "kept       answers every round" in done.out
    again = cli("schedule", tmp_path / "broken.json", "-s", f"{greedy}:ShortestUploads")
    assert again.code == 2
    assert "gave an impossible schedule" in again.err
    assert "broken     keeps within the limits" in done.out
    assert re.search(r"Hz are given away, but the band has|cannot meet the deadline", done.out)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "return None",
            "gave a wrong answer (mine.py): select returned NoneType: it must return a fedteddi.Schedule",
        ),
        ("raise KeyError('x')", "raised KeyError: 'x' (mine.py, line 3)"),
        ("import sys; sys.exit(0)", "called sys.exit(0) (mine.py, line 3): let it return a Schedule"),
    ],
)
def test_check_says_once_that_a_rule_fails(cli: Cli, tmp_path: Path, body: str, message: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"class Mine:\n    name = 'mine'\n    def select(self, view, rng): {body}\n")
    done = cli("check", f"{file}:Mine")
    assert done.code == 1
    assert done.out.count(message) == 1
    assert done.out.count("not tried  ") == 6
    assert "kept" not in done.out
    assert "mine breaks 1 of 7 invariants on 40 random rounds; 6 not tried." in done.out


def test_check_survives_a_rule_that_fails_now_and_then(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from fedteddi import make_scheduler\nclass Mine:\n    name = 'mine'\n    def select(self, view, rng):\n"
        "        if rng.random() < 0.2: raise RuntimeError('unlucky')\n"
        "        return make_scheduler('random').select(view, rng)\n"
    )
    done = cli("check", f"{file}:Mine")
    assert done.code == 1
    assert "broken     answers every round" in done.out
    assert "raised RuntimeError: unlucky (mine.py, line 5)" in done.out


def test_a_broken_package_does_not_hide_the_other_rules(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = EntryPoint(name="bad", value="nonsuch:X", group="fedteddi.schedulers")
    monkeypatch.setattr("fedteddi.registry.entry_points", lambda **_group: [bad])
    done = cli("schedulers")
    assert done.code == 0
    assert "pure-drift" in done.out
    assert "warning: the entry point 'bad' could not be imported" in done.err


def test_a_given_needed_hz_that_contradicts_the_file_is_doubted(cli: Cli) -> None:
    given = json.loads(write_round(example_round(0)))
    done = cli("schedule", "-", "--json", stdin=json.dumps(given | {"deadline_s": 1.3}))
    assert done.code == 0
    assert "warning: needed_hz[0]=" in done.err
    assert "30 such client(s)" in done.err
    assert cli("schedule", "-", stdin=json.dumps(given)).err == ""


def test_the_smallest_deadline_is_read_off_a_given_needed_hz(cli: Cli) -> None:
    """Written out at 1 s and scheduled in a narrow band: the deadline named is one that works with that band."""
    given = json.loads(write_round(example_round(0))) | {"total_hz": 4e5}
    done = cli("schedule", "-", stdin=json.dumps(given))
    smallest = re.search(r"the smallest feasible is ([\d.]+), or a band of ([\d.]+) MHz", done.err)
    assert smallest
    del given["needed_hz"]
    works = cli("schedule", "-", "--json", stdin=json.dumps(given | {"deadline_s": float(smallest[1])}))
    assert len(json.loads(works.out)["clients"]) == 1


def test_whole_numbers_may_be_written_as_json_likes(cli: Cli) -> None:
    given = json.loads(write_round(example_round(0))) | {"round": 1.0, "batch_size": 32.0}
    assert cli("schedule", "-", stdin=json.dumps(given)).code == 0


def test_a_schedule_may_be_given_as_arrays() -> None:
    schedule = fedteddi.Schedule(clients=np.array([3, 1]), bandwidth_hz=np.array([1.0, 2.0]))  # type: ignore[arg-type]
    assert schedule == fedteddi.Schedule(clients=(3, 1), bandwidth_hz=(1.0, 2.0))
    with pytest.raises(TypeError):
        fedteddi.Schedule(clients=(1.5,), bandwidth_hz=(1.0,))  # type: ignore[arg-type]


def test_a_narrow_terminal_loses_columns_but_no_digits(
    cli: Cli, reports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedteddi.cli.output.out", Console(highlight=False, width=60))
    shown = cli("schedule", reports).out
    assert "Δ" not in shown
    assert re.search(r"13 +0 5 \+7 +7\.33 +5\.739 +0\.800", shown)


@pytest.mark.parametrize("words", [("example",), ("schedulers",), ("schedule", "--schema")])
def test_a_full_disk_is_one_sentence(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fedteddi", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "error: the answer could not be written (No space left on device)\n"


def test_a_terminal_without_our_symbols_still_gets_the_numbers(reports: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fedteddi", "schedule", str(reports)],
        env=os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "16.79 of 20 MHz" in done.stdout
    assert "P3 -7.1594" in done.stdout


def test_schema_and_version(cli: Cli) -> None:
    assert json.loads(cli("schedule", "--schema").out)["title"] == "The reports of one round"
    assert cli("--version").out == f"fedteddi {fedteddi.__version__}\n"


def test_help_and_completion_are_there(cli: Cli) -> None:
    for command in ("schedulers", "example", "schedule", "check"):
        assert cli(command, "--help").code == 0
    # A shell asks for completions like this; typer answers with one word a line.
    done = subprocess.run(
        [Path(sys.executable).parent / "fedteddi"],
        env={
            "_FEDTEDDI_COMPLETE": "complete_bash",
            "COMP_WORDS": "fedteddi check fed",
            "COMP_CWORD": "2",
            "PATH": "",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    offered = done.stdout.split()
    assert offered == ["fedteddi", "fedteddi-plus", "fed-cbs", "fedcgd", "fedcor", "fedcs"], done


# --- simulating


def test_run_prints_the_curve_and_resumes(cli: Cli, tiny: Path) -> None:
    done = cli("run", tiny, "--scheduler", "pure-drift", "--seed", 2)
    assert done.code == 0
    assert re.search(r"^frame +round +balanced +global +old +new", done.out, re.MULTILINE)
    assert "records in runs/tiny-pure-drift-s2" in done.out
    assert "11/11 rounds" in done.err
    again = cli("run", tiny, "--scheduler", "pure-drift", "--seed", 2)
    assert again.code == 2
    assert "exists already: continue it with --resume" in again.err
    assert cli("run", tiny, "--scheduler", "pure-drift", "--seed", 2, "--resume").out == done.out


def test_names_and_paths_are_printed_as_they_are(cli: Cli, tiny: Path, reports: Path) -> None:
    """Rich would take brackets for markup, and :car: for a picture."""
    out = "runs/[bold]x:car:"
    done = cli("run", tiny, "--out", out, "--time-limit", 0)
    assert f"(records in {out})" in done.out
    done = cli("compare", tiny, "--scheduler", "fedteddi[search=refined]", "--out", f"{out}s")
    assert f"all rounds are done; records in {out}s" in done.out
    assert f"Next: open {out}s/report/report.md, with figures such as {out}s/report/" in done.out
    rule = "fedteddi[search=refined]"
    Path("[i]mine.py").write_text(
        EXAMPLE.read_text().replace('name = "shortest-uploads"', f'name = "{rule}"')
    )
    assert (
        f"{rule}, frame 1, round 1 of 300" in cli("schedule", reports, "-s", "[i]mine.py:ShortestUploads").out
    )
    assert f"{rule} keeps all 7" in cli("check", "[i]mine.py:ShortestUploads", "--rounds", 3).out
    assert (
        "[i]mine.py:ShortestUploads is not a channel"
        in cli("check", "[i]mine.py:ShortestUploads", "--kind", "channel").err
    )


@pytest.mark.parametrize("width", [20, 200])
def test_a_table_holds_names_as_they_are(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal that is wide enough, and in one that is not."""
    written = io.StringIO()
    monkeypatch.setattr("fedteddi.cli.tables.out", console(file=written, width=width, force_terminal=True))
    print_table(pd.DataFrame({"[i]rule": ["mine[1]"], "seeds": [":car:"], "[b]cost": ["[red]3"]}))
    assert all(word in written.getvalue() for word in ("mine[1]", ":car:", "[b]cost", "[red]3"))


def test_run_stops_in_time(cli: Cli, tiny: Path) -> None:
    done = cli("run", tiny, "--time-limit", 0, "--out", "stopped")
    assert done.code == 0
    assert "stopped in time; continue with the same command and --resume" in done.out


def test_a_time_limit_counts_from_the_processs_start(
    cli: Cli, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is 100 s old has nothing left of 99 s, and plenty of 1,100."""
    monkeypatch.setattr("fedteddi.cli.options.process_age_s", lambda: 100.0)
    for words in (["run", tiny], ["compare", tiny, "--scheduler", "random"]):
        late = cli(*words, "--time-limit", 99, "--out", words[0])
        assert late.code == 0
        assert "stopped in time; continue with the same command and --resume" in late.out
        (records,) = Path(words[0]).glob("**/rounds.jsonl")
        assert records.read_text() == ""
        done = cli(*words, "--time-limit", 1100, "--out", words[0], "--resume")
        assert done.code == 0
        assert "all rounds are done" in done.out


def test_compare_goes_on_without_a_run_that_diverges(
    cli: Cli, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here random diverges at once; the report is written all the same, and again when resumed."""
    plain = Clients.job

    def job(clients: Clients, request: Any, client: int) -> Any:
        found = plain(clients, request, client)
        return dataclasses.replace(found, learning_rate=1e38) if clients.settings.name == "random" else found

    monkeypatch.setattr(Clients, "job", job)
    words = [
        "compare",
        tiny,
        "--scheduler",
        "fedteddi",
        "--scheduler",
        "random",
        "--set",
        "rounds=[0,2,0]",
        "--out",
        "two",
    ]
    for more in ([], ["--resume"]):
        done = cli(*words, *more)
        assert done.code == 1
        said = "random at 1 s, seed 0 failed, and is left out: training diverged in frame 1, round 1: lower"
        assert done.err.count(said) == 1
        assert "all other rounds are done; records in two" in done.out
        assert "random" not in done.out
        assert said.split(" failed")[0] in Path("two/report/report.md").read_text()
    assert cli("report", "two").code == 0
    alone = cli("compare", tiny, "--scheduler", "random", "--out", "one")
    assert alone.code == 1
    assert "random at 1 s, seed 0 failed" in alone.err
    assert alone.out == ""
    single = cli("run", tiny, "--scheduler", "random", "--out", "single")
    assert single.code == 2
    assert "error: random at 1 s, seed 0: training diverged in frame 0, round 1" in single.err


def test_compare_reports_and_draws(cli: Cli, tiny: Path) -> None:
    words = [
        "compare",
        tiny,
        "--scheduler",
        "fedteddi",
        "--scheduler",
        "random",
        "--seeds",
        "2",
        "--rounds",
        "3",
    ]
    done = cli(*words, "--deadline", 0.9, "--deadline", 1.1, "--out", "both")
    assert done.code == 0, done.err
    assert "Frame 1: rounds that fedteddi is ahead of each baseline" in done.out
    assert Path("both/report/figure3-accuracy-frame1.png").stat().st_size > 1000
    assert len(list(Path("both").glob("*/rounds.jsonl"))) == 8
    study = fedteddi.read_study(Path("both"))
    assert {tuple(run.settings.rounds) for run in study.runs} == {(3, 3, 3)}
    assert study.deadlines_s == [0.9, 1.1]
    assert not list(Path("both/report").glob("*.svg"))
    shown = cli("report", "both", "--target", 0.3, "--out", "elsewhere", "--svg")
    assert "balanced 30%" in shown.out
    assert Path("elsewhere/figure3-accuracy-frame1.svg").stat().st_size > 1000
    assert Path("elsewhere/report.md").exists()
    misspelt = cli("report", "both", "--ours", "fedtedi")
    assert misspelt.code == 2
    assert "--ours fedtedi: no such run here (did you mean 'fedteddi'?); there are" in misspelt.err


def test_compare_sweeps_resumes_and_is_reported(cli: Cli, tiny: Path) -> None:
    words = ["compare", tiny, "--scheduler", "random", "--scheduler", "fedteddi", "--rounds", 2]
    band = "radio.total_hz=7500,15000"
    done = cli(*words, "--sweep", band, "--sweep", "training.batch_size=8", "--out", "swept")
    assert done.code == 0, done.err
    assert "Sweep of radio.total_hz and training.batch_size: accuracy and cost" in done.out
    assert Path("swept/report/sweep.png").stat().st_size > 1000
    assert sorted(path.name for path in Path("swept").iterdir() if path.name not in (".lock", "report")) == [
        *("radio.total_hz=15000,training.batch_size=8", "radio.total_hz=7500,training.batch_size=8")
    ]
    held = Path("swept/report/table.csv").read_text()
    more = cli(
        *words, "--sweep", f"{band},30000", "--sweep", "training.batch_size=8,4", "--out", "swept", "--resume"
    )
    assert more.code == 0, more.err
    study = fedteddi.read_study("swept")
    assert len(study.points) == 6
    assert study.finished
    assert set(held.splitlines()) < set(Path("swept/report/table.csv").read_text().splitlines())
    again = cli("report", "swept", "--target", 0.3, "--out", "elsewhere")
    assert again.code == 0, again.err
    one = cli("report", "swept/radio.total_hz=7500,training.batch_size=4", "--out", "one")
    assert "Frame 1: test accuracy in %" in one.out
    wrong = cli(*words, "--sweep", "radio.total_h=1,2", "--out", "no")
    assert (wrong.code, Path("no").exists()) == (2, False)
    assert "unknown key 'radio.total_h' (did you mean 'total_hz'?)" in wrong.err


def test_compare_reports_what_it_holds_and_what_lay_there_before(
    cli: Cli, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only runs of an earlier command are read from disk; the report is the one that `report` makes of all files."""
    read: list[str] = []

    def noted(path: Path) -> RunRecord:
        read.append(path.name)
        return read_run(path)

    monkeypatch.setattr("fedteddi.results.reading.read_run", noted)
    words = ("compare", tiny, "--rounds", 2, "--out", "both", "--scheduler")
    assert cli(*words, "random").code == 0
    assert read == []
    done = cli(*words, "fedteddi", "--resume")
    assert read == ["random-d1-s0"]
    assert "Frame 1: rounds that fedteddi is ahead of each baseline" in done.out
    page = Path("both/report/report.md").read_bytes()
    assert cli("report", "both").code == 0
    assert Path("both/report/report.md").read_bytes() == page


def test_runs_in_which_nobody_could_upload_are_named(cli: Cli, tiny: Path) -> None:
    """Within a millisecond nobody can, but the bound has no limits."""
    words = ("--scheduler", "random", "--scheduler", "everyone", "--rounds", 1, "--deadline", 0.001)
    done = cli("compare", tiny, *words, "--out", "idle")
    assert done.code == 0, done.err
    said = " ".join(done.err.split())
    assert "nobody was ever scheduled by random at 0.001 s, seed 0: raise radio.deadline_s" in said


def test_scenario_is_printed_and_drawn_before_anything_is_trained(cli: Cli, tiny: Path) -> None:
    done = cli("scenario", tiny, "--out", "plan.png")
    assert done.code == 0
    assert len(re.findall(r"^ +\d ", done.out, re.MULTILINE)) == 6
    assert done.out.count("+3×12") == 3
    assert Path("plan.png").stat().st_size > 1000
    assert Path("plan.svg").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "fashoin"], "did you mean 'fashion'"),
        (["run", "--set", "radio.deadlin_s=1"], "did you mean 'deadline_s'"),
        (["run", "tiny.toml", "--set", "training.batch_size=50"], "is more than a client holds (24)"),
        (["run", "tiny.toml", "--scheduler", "nonsuch"], "no scheduler is called 'nonsuch'"),
        (["run", "tiny.toml", "--set", "scenario.samples_per_client=500"], "ask for fewer samples"),
        (["run", "tiny.toml", "--out", "/dev/null/x"], "cannot be written"),
        (["run", "tiny.toml", "--scheduler", "centralised"], "is a reference bound: run it with compare"),
        (["compare", "tiny.toml", "--seeds", "x"], "--seeds 'x'"),
        (["report", "nowhere"], "there is no folder nowhere"),
        (["report", ".", "--target", "75"], "--target 75: give a share between 0 and 1"),
        (["scenario", "tiny.toml", "--out", "/dev/null/x.png"], "cannot be written"),
    ],
)
@pytest.mark.usefixtures("tiny")
def test_bad_experiments_are_refused_in_one_sentence(cli: Cli, words: list[str], message: str) -> None:
    done = cli(*words)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_a_rule_with_memory_goes_on_from_its_state_file(cli: Cli, reports: Path, tmp_path: Path) -> None:
    """Two calls with the file choose what two rounds in a row choose; the second one others than the first."""
    words = ("schedule", reports, "-s", "age-of-update", "--json", "--state", tmp_path / "state.json")
    first, second = (json.loads(cli(*words).out)["clients"] for _ in range(2))
    rule, view = make_scheduler("age-of-update"), example_round(0, deadline_s=DEADLINE_S)
    one, state = choice_of(rule, view, np.random.default_rng(0), first_state(rule, 30))
    two, _ = choice_of(rule, view, np.random.default_rng(0), state)
    assert (tuple(first), tuple(second)) == (one.clients, two.clients)
    waiting = set(view.schedulable.tolist()) - set(first)
    assert len(waiting) > 5
    assert set(second[:5]) < waiting  # who has waited comes first


def test_a_state_file_that_is_none_is_refused(cli: Cli, reports: Path, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    for text in ("{", '{"array": 1}', '{"a": 1, "b": 2}'):
        file.write_text(text)
        done = cli("schedule", reports, "-s", "age-of-update", "--state", file)
        assert done.code == 2
        assert "state.json cannot be used" in done.err
    done = cli("schedule", reports, "-s", "random", "--state", file)
    assert (done.code, done.err) == (2, "error: random has no memory: leave --state out\n")


@pytest.mark.parametrize(
    ("kind", "method", "good", "bad", "law"),
    [
        (
            "channel",
            "gains(self, positions_m, draws)",
            "1e-9 + 0 * positions_m[:, 0]",
            "None",
            "a gain for every client",
        ),
        (
            "aggregation",
            "aggregate(self, received)",
            "received.uploads[0] * 1",
            "[]",
            "a model and a state that can be used",
        ),
        (
            "local-training",
            "direction(self, gradient, weights, start)",
            "gradient * 2",
            "1",
            "a direction for every step",
        ),
    ],
)
def test_check_tries_other_parts_too(
    cli: Cli, tmp_path: Path, kind: str, method: str, good: str, bad: str, law: str
) -> None:
    """The aggregation that takes the first upload breaks an invariant of its own: order matters to it."""
    for name, answer in (("Good", good), ("Bad", bad), ("Raising", "1 / 0")):
        (tmp_path / f"{name}.py").write_text(f"class {name}:\n    def {method}:\n        return {answer}\n")
    done = cli("check", f"{tmp_path}/Good.py:Good", "--kind", kind)
    assert f"kept       {law}" in done.out
    assert done.code == (1 if kind == "aggregation" else 0)
    done = cli("check", f"{tmp_path}/Bad.py:Bad", "--kind", kind)
    assert f"broken     {law}" in done.out
    assert done.code == 1
    done = cli("check", f"{tmp_path}/Raising.py:Raising", "--kind", kind)
    assert "raised ZeroDivisionError" in done.out
    assert "kept" not in done.out
    assert re.search(
        r"not tried  .*:Raising breaks 1 of \d invariants; \d not tried.\n$", done.out, re.DOTALL
    )
    assert done.code == 1


def test_check_refuses_a_kind_it_does_not_know(cli: Cli) -> None:
    done = cli("check", "random", "--kind", "chanel")
    assert done.code == 2
    assert "did you mean 'channel'" in done.err


@pytest.mark.parametrize("command", ["run", "compare"])
def test_help_shows_how_options_are_written(cli: Cli, command: str) -> None:
    """Rich would take the brackets for markup."""
    assert "fedteddi[search=refined]" in " ".join(cli(command, "--help").out.replace("│", " ").split())
