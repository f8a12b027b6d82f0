"""Data, styles, scripts and Plotly put together into one HTML file that needs nothing else."""

import json
import math
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from fedteddi.errors import InputError
from fedteddi.extras import explained
from fedteddi.protocol.record import RoundRecord
from fedteddi.results.folder import write_atomically
from fedteddi.results.page.collect import collect
from fedteddi.results.page.colours import colours_of
from fedteddi.results.page.decisions import Retell, Retold
from fedteddi.results.page.detail import Detail
from fedteddi.results.page.found import find_runs
from fedteddi.results.runs import RunRecord

HERE = "fedteddi.results.page"
SCRIPTS = ("tools", "curves", "classes", "cell", "decision", "timeline", "data", "words", "main")
LARGEST_DATA = 4_600_000  # bytes; with Plotly the page stays below 10 MB


def write_page(runs: Path, file: Path, retell: Retell | None = None) -> None:
    """Write the page about all runs of a folder."""
    script = plotly_script()  # first: without it all else is in vain
    text = render(page_data(runs, retell), script)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text.encode())
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror}): choose another --html FILE") from None


def page_data(runs: Path, retell: Retell | None = None) -> str:
    """Return the data of the page as JSON, thinned until it is small enough."""
    found = find_runs(runs)
    retell = None if retell is None else _once(retell)
    detail = Detail()
    while True:
        data = collect(found, detail, retell)
        names = [group["name"] for one in data["conditions"] for group in one["groups"]]
        text = as_json(data | {"version": _version(), "colours": colours_of(names)})
        if len(text.encode()) <= LARGEST_DATA or detail.scale < 1e-3:
            return text
        detail = Detail(detail.scale * max(0.1, 0.9 * LARGEST_DATA / len(text.encode())))


def _version() -> str:
    try:
        return version("fedteddi")
    except PackageNotFoundError:  # run from a folder that is not installed
        return ""


def _once(retell: Retell) -> Retell:
    """Tell each decision once, however often the data is thinned."""
    told: dict[tuple[int, int, int, bool], Retold | str] = {}

    def tell(run: RunRecord, record: RoundRecord, prove: bool) -> Retold | str:
        key = id(run), record.frame, record.round, prove
        if key not in told:
            told[key] = retell(run, record, prove)
        return told[key]

    return tell


def render(data: str, plotly: str) -> str:
    """Return the page; `data` is JSON that is safe inside a script element."""
    page = files(HERE)
    engine = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    engine.filters["safe_script"] = lambda text: text.replace("</script", "<\\/script")
    template = engine.from_string(page.joinpath("page.html.j2").read_text(encoding="utf-8"))
    scripts = "\n".join(page.joinpath("js", f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    return template.render(
        title=f"{json.loads(data)['folder']} – fedteddi",
        style=page.joinpath("page.css").read_text(encoding="utf-8"),
        scripts=scripts,
        plotly=plotly,
        data=data,
    )


def plotly_script() -> str:
    """Return Plotly's JavaScript from the Python package, which is an extra."""
    with explained("the page"):
        from plotly.offline import get_plotlyjs
    return str(get_plotlyjs())


def as_json(data: Mapping[str, Any]) -> str:
    """Return compact JSON that may stand in a script element: no `<`, `>` or `&`, and null for what is not finite."""
    text = json.dumps(_finite(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return (
            None
            if not math.isfinite(value)
            else int(value)
            if value == int(value) and abs(value) < 1e15
            else value
        )
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
