"""Bad input of every kind: one sentence on stderr naming value and remedy, exit code 2, nothing on stdout."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli_runner import Outcome
from fedteddi import InputError, example_round
from fedteddi.cli.rounds import _read
from fedteddi.protocol.round_json.reports import write_round

Cli = Callable[..., Outcome]
GOOD: dict[str, Any] = json.loads(write_round(example_round(0)))
WITHOUT_BAND = {key: value for key, value in GOOD.items() if key != "needed_hz"}


def with_entry(field: str, index: int, value: Any) -> str:
    entries = list(GOOD[field])
    entries[index] = value
    return json.dumps(GOOD | {field: entries})


def without(*fields: str) -> str:
    return json.dumps({key: value for key, value in GOOD.items() if key not in fields})


BAD = {
    "NaN in a mix": (with_entry("batch_mix", 3, [float("nan")] + [0.1] * 9), "batch_mix[3][0]=nan"),
    "infinity in a number": (json.dumps(GOOD | {"gradient_std": float("inf")}), "gradient_std=inf"),
    "infinity for needed_hz": (
        with_entry("needed_hz", 2, float("inf")),
        "needed_hz[2]=inf: give a finite number, or null",
    ),
    "mix summing to 0.9": (with_entry("data_mix", 7, [0.9] + [0.0] * 9), "data_mix[7] sums to 0.9"),
    "negative count": (with_entry("num_samples", 5, -3), "num_samples[5]=-3"),
    "half a sample": (with_entry("num_samples", 5, 2.5), "num_samples[5]=2.5"),
    "true for a number": (with_entry("num_samples", 5, True), "num_samples[5] is a true or false"),
    "text for a number": (with_entry("loss", 0, "high"), "loss[0] is a text: give a number"),
    "null in a list": (with_entry("channel_gain", 1, None), "channel_gain[1] is a null"),
    "an object for a list": (json.dumps(GOOD | {"class_norm": {}}), "class_norm is a object"),
    "missing field": (without("class_norm"), "class_norm is missing"),
    "missing needed_hz and its makings": (
        without("needed_hz", "model_bits"),
        "needed_hz is missing, and so is model_bits",
    ),
    "unknown field": (json.dumps(GOOD | {"bach_mix": []}), "did you mean 'batch_mix'"),
    "unknown radio field": (json.dumps(GOOD | {"radio": {"power": 1}}), "unknown field radio.power"),
    "absurd radio": (
        json.dumps(WITHOUT_BAND | {"radio": {"power_dbm": 1e9}}),
        "radio.power_dbm=1000000000.0",
    ),
    "0 clients": (
        json.dumps(
            GOOD | {key: [] for key, value in GOOD.items() if isinstance(value, list) and len(value) == 30}
        ),
        "num_samples is empty",
    ),
    "deadline of 0": (
        json.dumps(WITHOUT_BAND | {"deadline_s": 0}),
        "deadline_s=0: give a finite number above 0",
    ),
    "deadline of text": (json.dumps(WITHOUT_BAND | {"deadline_s": "soon"}), "deadline_s='soon'"),
    "bandwidth of -1": (json.dumps(GOOD | {"total_hz": -1}), "total_hz=-1"),
    "rows of unequal length": (
        with_entry("batch_mix", 3, [0.5, 0.5]),
        "batch_mix[3] has 2 entries, batch_mix[0] has 10",
    ),
    "a row that is none": (with_entry("batch_mix", 3, 0.5), "batch_mix[3] is a number"),
    "lists of unequal length": (json.dumps(GOOD | {"loss": [1.0]}), "loss has 1 entries: give 30"),
    "unequal makings of needed_hz": (
        json.dumps(WITHOUT_BAND | {"compute_s": [0.1]}),
        "compute_s has 1 entries",
    ),
    "negative gain": (
        json.dumps(WITHOUT_BAND | {"channel_gain": [-1.0] * 30}),
        "channel_gain[0]=-1.0: give a finite number, at least 0",
    ),
    "a band beyond all floats": (json.dumps(GOOD | {"total_hz": 10**400}), "total_hz=1000000"),
    "a batch of absurd size": (json.dumps(GOOD | {"batch_size": 10**308}), "batch_size=1000000"),
    "an absurd class norm": (with_entry("class_norm", 0, 1e308), "class_norm[0]=1e+308"),
    "a model of no bits": (json.dumps(WITHOUT_BAND | {"model_bits": 5e-324}), "model_bits=5e-324"),
    "a huge integer": (with_entry("num_samples", 0, 10**40), "num_samples[0]=1000000000"),
    "an endless integer": (
        json.dumps(GOOD)[:-1] + ', "frame2": ' + "9" * 6000 + "}",
        "a number of absurd length",
    ),
    "a field twice": (json.dumps(GOOD)[:-1] + ', "round": 2}', "'round' appears twice"),
    "classes_seen of numbers": (
        json.dumps(GOOD | {"classes_seen": [1] * 10}),
        "classes_seen: give a list of true and false",
    ),
    "malformed JSON": ('{"frame": 1,', "is not valid JSON"),
    "empty text": ("", "the text is empty"),
    "a list": ("[1, 2]", "the JSON is a list: give one object"),
    "absurd nesting": ("[" * 200_000 + "]" * 200_000, "nested too deeply"),
    "absurd nesting of objects": ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
    "nesting inside a field": (
        json.dumps(GOOD)[:-1] + ', "loss2": ' + "[" * 500 + "]" * 500 + "}",
        "unknown field 'loss2'",
    ),
}


def assert_refused(done: Outcome, message: str) -> None:
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err


@pytest.mark.parametrize("case", BAD)
def test_bad_reports_are_refused_in_one_sentence(cli: Cli, case: str) -> None:
    text, message = BAD[case]
    assert_refused(cli("schedule", "-", "--json", stdin=text), message)


def test_the_good_report_is_accepted(cli: Cli) -> None:
    """So the reports above are refused for what is wrong with them."""
    assert cli("schedule", "-", stdin=json.dumps(GOOD)).code == 0
    assert cli("schedule", "-", stdin=json.dumps(WITHOUT_BAND)).code == 0


def test_files_that_cannot_be_read(cli: Cli, tmp_path: Path) -> None:
    assert_refused(cli("schedule", tmp_path / "nowhere.json"), "cannot be read (No such file or directory)")
    assert_refused(cli("schedule", tmp_path), "cannot be read (Is a directory)")
    (tmp_path / "image.json").write_bytes(b"\x89PNG\xff\xfe\x00")
    assert_refused(cli("schedule", tmp_path / "image.json"), "is not UTF-8 text")
    assert_refused(cli("schedule"), "REPORTS is missing")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-s", "fedtedi"], "did you mean 'fedteddi'"),
        (["-o", "serach=exact"], "did you mean 'search'"),
        (
            ["-o", "search=exakt"],
            "search='exakt': choose one of greedy, refined, exact (did you mean 'exact'?)",
        ),
        (["-o", "lambda0=many"], "lambda0='many': give a finite number at least 0"),
        (["-o", "lambda0=nan"], "lambda0=nan"),
        (["-o", "lambda0=1e308"], "lambda0=1e+308: give a finite number at least 0 and at most 1e+100"),
        (["-o", "search"], "write it as key=value"),
        (["-o", "lambda0=1", "-o", "lambda0=2"], "given twice"),
        (["-s", "random", "-o", "lambda0=1"], "random has no option 'lambda0'"),
        (["-s", "power-of-choice", "-o", "candidates=0"], "candidates=0: give a whole number at least 1"),
        (["-s", "nowhere.py:Mine"], "there is no file 'nowhere.py'"),
    ],
)
def test_bad_options_are_refused(cli: Cli, words: list[str], message: str) -> None:
    assert_refused(cli("schedule", "-", *words, stdin=json.dumps(GOOD)), message)


def test_a_rule_lacking_its_field_says_so(cli: Cli) -> None:
    assert_refused(
        cli("schedule", "-", "-s", "best-norm", stdin=without("update_norm")), "add update_norm to the round"
    )
    done = cli("schedule", "-", "-o", "spare_band=share", stdin=without("model_bits"))
    assert_refused(done, "spare_band='share' needs compute_s, deadline_s and model_bits")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError('no\\nidea')", "mine raised RuntimeError: no idea (mine.py, line 5)"),
        ("return Schedule(clients=(1, 1), bandwidth_hz=(1e7, 1e7))", "client 1 is scheduled more than once"),
        ("return Schedule(clients=(99,), bandwidth_hz=(1e6,))", "client 99 does not exist"),
        ("return Schedule(clients=(1,), bandwidth_hz=())", "1 clients but 0 bandwidths"),
        ("return Schedule(clients=(1,), bandwidth_hz=(1e9,))", "Hz are given away, but the band has"),
        ("return Schedule(clients=(1,), bandwidth_hz=(float('nan'),))", "client 1 got nan Hz"),
        ("import sys; sys.exit(0)", "mine called sys.exit(0) (mine.py, line 5)"),
        ("return Schedule(clients=(), bandwidth_hz=(), bound=float('nan'))", "its bound is nan"),
        ("return None", "mine gave a wrong answer (mine.py): select returned NoneType"),
    ],
)
def test_a_foreign_rule_that_misbehaves_is_named(cli: Cli, tmp_path: Path, body: str, message: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from fedteddi import Schedule\nclass Mine:\n    name = 'mine'\n    def select(self, view, rng):\n        "
        + body
    )
    assert_refused(cli("schedule", "-", "-s", f"{file}:Mine", stdin=json.dumps(GOOD)), message)


def test_a_rule_file_that_exits_is_an_error_not_a_success(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import sys\nsys.exit(0)\n")
    assert_refused(
        cli("schedule", "-", "-s", f"{file}:Mine", stdin=json.dumps(GOOD)),
        "could not be imported: SystemExit",
    )
    assert_refused(cli("check", f"{file}:Mine"), "could not be imported: SystemExit")


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedteddi.cli.rounds.sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        _read("-")
