"""The numeric table of a study against plain arithmetic; its text and its LaTeX."""

import math
import re
import shutil
import statistics
import subprocess
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fedteddi import InputError
from fedteddi.results.latex import typeset
from fedteddi.results.measures import COSTS, MEASURES
from fedteddi.results.runs import RunRecord, Study
from made_study import made_run

# Evaluated at rounds 0, 5, 10, 15. Student's t at 97.5 %: 12.706 with one degree of freedom, 4.303 with two.
OURS = [
    made_run("fedteddi", 0, [0.2, 0.5, 0.6, 0.7]),
    made_run("fedteddi", 1, [0.2, 0.6, 0.7, 0.9]),
    made_run("fedteddi", 2, [0.2, 0.4, 0.6, 0.8]),
]
THEIRS = [made_run("random", 0, [0.2, 0.3, 0.4, 0.6]), made_run("random", 1, [0.2, 0.3, 0.4, 0.4])]
STUDY = Study((*OURS, *THEIRS))


def row(table: pd.DataFrame, scheduler: str, metric: str) -> dict[str, float]:
    (found,) = table[(table["scheduler"] == scheduler) & (table["metric"] == metric)].to_dict("records")
    return found


def test_mean_deviation_and_interval_are_those_of_the_textbook() -> None:
    """Final accuracies 0.7, 0.9, 0.8: mean 0.8, sd 0.1, interval 0.8 ± 4.303 · 0.1/√3 = 0.8 ± 0.248."""
    table = STUDY.table("final_balanced", "mean_global")
    found = row(table, "fedteddi", "final_balanced")
    values = [0.7, 0.9, 0.8]
    assert found["mean"] == pytest.approx(statistics.mean(values))
    assert found["sd"] == pytest.approx(statistics.stdev(values))
    assert (found["low"], found["high"]) == pytest.approx((0.8 - 0.2484, 0.8 + 0.2484), abs=1e-4)
    assert (found["n"], found["censored"], found["frame"], found["rounds_in_frame"]) == (3, 0, 1, 15)
    # Means over the evaluations, round 0 among them: 0.5, 0.6, 0.5.
    assert row(table, "fedteddi", "mean_global")["mean"] == pytest.approx(1.6 / 3)
    assert [str(table[name].dtype) for name in ("deadline_s", "n", "mean", "sd", "low", "censored")] == [
        *("float64", "int64", "float64", "float64", "float64", "int64")
    ]


def test_seeds_that_never_get_there_are_counted_and_stand_for_k() -> None:
    """60 %: Random in round 15 and never (K = 15 stands for it); ours after 10, 5 and 10 rounds of 1.2 s."""
    table = STUDY.table("rounds_to_balanced", "seconds_to_balanced", targets=[0.6])
    ours, theirs = row(table, "fedteddi", "rounds_to_balanced"), row(table, "random", "rounds_to_balanced")
    assert (ours["mean"], ours["censored"], ours["target"]) == (pytest.approx(25 / 3), 0, 0.6)
    assert (theirs["mean"], theirs["censored"], theirs["n"], theirs["sd"]) == (15, 1, 2, 0)
    assert row(table, "fedteddi", "seconds_to_balanced")["mean"] == pytest.approx(10)
    seconds = row(table, "random", "seconds_to_balanced")
    assert (seconds["mean"], seconds["censored"]) == (pytest.approx(18), 1)
    text = table.display().set_index("scheduler")
    assert text.loc["random"].tolist() == [">15 (1 of 2 reached)", ">18"]
    assert text.loc["fedteddi", "rounds to balanced 60%"] == "8 ± 3"


def test_differences_are_paired_by_seed() -> None:
    """Seeds 0 and 1 only: 0.6 − 0.7 and 0.4 − 0.9: mean −0.3, sd 0.4/√2, interval ± 12.706 · 0.2."""
    table = STUDY.table("final_balanced", "rounds_to_balanced", targets=[0.6], against="fedteddi")
    assert table["scheduler"].unique().tolist() == ["random"]
    found = row(table, "random", "final_balanced")
    assert (found["n"], found["mean"], found["sd"]) == (2, pytest.approx(-0.3), pytest.approx(0.08**0.5))
    assert found["low"] == pytest.approx(-0.3 - 12.7062 * 0.2, abs=1e-4)
    rounds = row(table, "random", "rounds_to_balanced")  # 15 − 10 and >15 − 5
    assert (rounds["mean"], rounds["censored"], rounds["censored_against"]) == (7.5, 1, 0)
    text = table.display().iloc[0]
    assert text["final balanced"] == "-0.300 [-2.841, +2.241]"
    assert text["rounds to balanced 60%"].startswith("≥ +8 [")
    back = STUDY.table("rounds_to_balanced", targets=[0.6], against="random").display().iloc[0]
    assert back["rounds to balanced 60%"].startswith("≤ -8 [")
    neither = STUDY.table("rounds_to_balanced", targets=[0.95], against="random").display().iloc[0]
    assert neither["rounds to balanced 95%"] == "–"


def test_the_same_difference_in_all_seeds_counts_the_rounding() -> None:
    """Evaluated every 5 rounds: 5 ± 12.706 · √(24/6)/√2, as in the report's tables."""
    runs = [made_run("random", seed, [0.2, 0.3, 0.6]) for seed in (0, 1)]
    runs += [made_run("fedteddi", seed, [0.2, 0.6, 0.6]) for seed in (0, 1)]
    found = row(
        Study(tuple(runs)).table("rounds_to_global", targets=[0.6], against="fedteddi"),
        "random",
        "rounds_to_global",
    )
    assert (found["mean"], found["sd"]) == (5, 0)
    assert found["high"] - found["mean"] == pytest.approx(12.7062 * 2 / math.sqrt(2), abs=1e-3)


def test_one_seed_has_no_deviation_and_no_interval() -> None:
    found = row(Study((OURS[0],)).table("final_balanced"), "fedteddi", "final_balanced")
    assert [math.isnan(found[name]) for name in ("mean", "sd", "low", "high")] == [False, True, True, True]
    assert Study((OURS[0],)).table("final_balanced").display().iloc[0].tolist() == ["fedteddi", "0.700"]


def test_without_names_it_has_every_measure_that_is_known() -> None:
    """Class gradients were not counted; everything else is known of frame 1."""
    found = set(STUDY.table()["metric"])
    unknown = {name for name in MEASURES if "class_gradients" in name}
    assert found == set(MEASURES) - unknown
    assert len(unknown) == 3 * 2
    assert {name for name in MEASURES if name in ("seconds", "uplink_gbit", "energy_j")} < found
    assert len(COSTS) == 5


def test_bounds_have_no_costs_and_data_in_one_place_has_no_clients() -> None:
    bounds = [made_run(name, 0, [0.2, 0.9]) for name in ("everyone", "centralised")]
    study = Study((made_run("random", 0, [0.2, 0.3]), *bounds))
    table = study.table("clients_a_round", "seconds")
    assert table[["scheduler", "metric"]].to_numpy().tolist() == [
        ["random", "clients_a_round"],
        ["random", "seconds"],
        ["everyone", "clients_a_round"],
    ]
    shown = study.table("final_balanced", "clients_a_round", "seconds").display().set_index("scheduler")
    assert shown.loc["centralised"].tolist() == ["0.900", "–", "–"]


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(InputError, match=r"'final_balance' \(did you mean 'final_balanced'\?\)"):
        STUDY.table("final_balance")
    with pytest.raises(
        InputError, match=r"against='fedtedi': no such run here \(did you mean 'fedteddi'\?\)"
    ):
        STUDY.table(against="fedtedi")
    with pytest.raises(InputError, match="no column"):
        STUDY.table("final_balanced")[["scheduler", "metric", "mean"]].display()


def test_unfinished_runs_are_left_out() -> None:
    half = replace(OURS[2], finished=False)
    assert row(Study((*OURS[:2], half)).table("best_global"), "fedteddi", "best_global")["n"] == 2


def test_rows_can_be_chosen_as_in_any_data_frame() -> None:
    table = STUDY.table("final_balanced", "best_balanced")
    chosen = table[table["scheduler"] == "random"]
    assert chosen.display().columns.tolist() == ["scheduler", "final balanced", "best balanced"]
    assert table.pivot_table(index="scheduler", columns="metric", values="mean").loc[
        "fedteddi", "best_balanced"
    ] == pytest.approx(0.8)


def test_deadlines_are_named_where_they_differ() -> None:
    other = [made_run("random", 0, [0.2, 0.3], deadline_s=0.8), made_run("random", 0, [0.2, 0.4])]
    shown = Study(tuple(other)).table("final_balanced").display()
    assert shown.columns.tolist() == ["deadline s", "scheduler", "final balanced"]
    assert shown["deadline s"].tolist() == ["0.8", "1.2"]


def test_latex_has_the_rules_of_booktabs_and_as_many_cells_in_every_row() -> None:
    table = STUDY.table("final_balanced", "rounds_to_balanced", targets=[0.6])
    text = table.to_latex(caption="100 % of A_B & C", label="tab:own")
    body = text.splitlines()
    rules = [line for line in body if re.fullmatch(r"\\(top|mid|bottom)rule", line)]
    assert rules == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert r"\caption{100 \% of A\_B \& C}" in text
    assert r"\label{tab:own}" in text
    assert r"\begin{tabular}{lrr}" in text
    rows = [line for line in body if line.endswith(r"\\")]
    assert [len(re.split(r"(?<!\\)&", line)) for line in rows] == [3, 3, 3]
    assert rows[1] == r"fedteddi & 0.800 $\pm$ 0.100 & 8 $\pm$ 3 \\"
    assert rows[2] == r"random & 0.500 $\pm$ 0.141 & $>$15 (1 of 2 reached) \\"
    assert "table" not in table.to_latex().replace("tabular", "").replace("booktabs", "")
    assert text.isascii()


def test_what_latex_would_read_as_commands_is_printed() -> None:
    assert typeset(r"a_b\c{d}$^~#") == (r"a\_b\textbackslash{}c\{d\}\$\textasciicircum{}\textasciitilde{}\#")
    assert typeset("Gbit without L̂ ≥ −1") == r"Gbit without $\hat{L}$ $\geq$ $-$1"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_latex_compiles(tmp_path: Path) -> None:
    tables = [STUDY.table(targets=[0.6]), STUDY.table("final_balanced", against="random")]
    body = "\n".join(table.to_latex(caption="A & B") for table in tables)
    page = (
        "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n" + body + "\\end{document}\n"
    )
    (tmp_path / "page.tex").write_text(page)
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "page.tex"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_runs_of_a_sweep_are_not_mixed() -> None:
    """Two points, one seed each: two rows, never a mean over both; figures ask for a point."""
    runs = [
        replace(run, point={"scenario.alpha": alpha})
        for alpha, run in ((1.0, made_run("random", 0, [0.2, 0.3])), (0.1, made_run("random", 0, [0.2, 0.5])))
    ]
    study = Study(tuple(runs))
    table = study.table("final_balanced")
    assert table[["scenario.alpha", "n", "mean"]].to_numpy().tolist() == [[0.1, 1, 0.5], [1.0, 1, 0.3]]
    assert table.display().columns.tolist() == ["scenario.alpha", "scheduler", "final balanced"]
    with pytest.raises(InputError, match=r"sweep scenario.alpha: .* study.at\(scenario__alpha=1.0\)"):
        study.accuracy_figure()
    assert study.at(scenario__alpha=0.1).accuracy_figure().axes
    assert study.curves()["scenario.alpha"].unique().tolist() == [1.0, 0.1]
    assert study.runs[0].title == "random at 1.2 s, seed 0, scenario.alpha=1"


def test_targets_of_a_sweep_are_the_same_at_all_points() -> None:
    """The best point just reaches 50 %, the other 30 %: both rows are about 40, 45 and 50 %."""
    runs: list[RunRecord] = []
    for alpha, top in ((1.0, 0.3), (0.1, 0.5)):
        runs.append(replace(made_run("random", 0, [0.2, top]), point={"scenario.alpha": alpha}))
    table = Study(tuple(runs)).table("rounds_to_balanced")
    assert table.groupby("scenario.alpha")["target"].apply(list).tolist() == [[0.4, 0.45, 0.5]] * 2
    assert table["censored"].tolist() == [0, 0, 0, 1, 1, 1]


def test_targets_that_tell_nothing_can_be_left_out() -> None:
    """20 % is met at round 0 by all, 95 % is never reached."""
    table = STUDY.table("rounds_to_balanced", "final_balanced", targets=[0.2, 0.6, 0.95])
    kept = table.telling()
    assert set(kept.loc[kept["metric"] == "rounds_to_balanced", "target"]) == {0.6}
    assert (kept["metric"] == "final_balanced").sum() == 2


def test_a_frame_in_which_accuracy_only_falls_has_a_table() -> None:
    """Nothing above where it began is reached, so there is no target; the other measures are known."""
    table = Study((made_run("fedteddi", 0, [0.8, 0.5, 0.4]),)).table()
    assert row(table, "fedteddi", "final_balanced")["mean"] == pytest.approx(0.4)
    assert "rounds_to_balanced" not in set(table["metric"])
