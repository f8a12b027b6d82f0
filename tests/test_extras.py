"""Without extras, everything of the core works, and everything else names the command that installs what it lacks."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest

from fedteddi.errors import InputError
from fedteddi.extras import BROUGHT_BY, MissingExtraError, explained, explains_missing, missing_extra


def name_of(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
FOR_USERS = [name for name in EXTRAS if name not in ("all", "dev", "docs")]
GIVERS = {module: {name_of(one) for one in names} for module, names in packages_distributions().items()}
FORBIDDEN = {
    contract["name"]: contract["forbidden_modules"]
    for contract in PROJECT["tool"]["importlinter"]["contracts"]
    if contract["type"] == "forbidden"
}


def test_the_core_works_alone_and_names_what_everything_else_needs(tmp_path: Path) -> None:
    """Every command, every public name and every method of a study, where no module of an extra can be imported."""
    script = "import runpy; runpy.run_path(TESTS + '/core_only.py', run_name='__main__')"
    assert printed_without(list(BROUGHT_BY), script, tmp_path) == ""


def test_finished_runs_are_reported_on_with_the_report_extra_alone(tmp_path: Path) -> None:
    hidden = [module for module, extras in BROUGHT_BY.items() if "report" not in extras]
    assert "torch" in hidden
    script = "from core_only import prepare, said; prepare(); print(said('report runs'))"
    assert printed_without(hidden, script, tmp_path) == "(0, '')"
    assert (tmp_path / "runs" / "report" / "figure3-accuracy-frame1.png").stat().st_size > 1000


def printed_without(modules: list[str], script: str, folder: Path) -> str:
    """Run a script in a folder as if these modules were not installed; return what it printed."""
    tests = str(ROOT / "tests")
    first = f"import sys; TESTS = {tests!r}; sys.path.insert(0, TESTS); from hidden import hide; hide({modules}); "
    done = subprocess.run(
        [sys.executable, "-c", first + script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"FEDTEDDI_CACHE": str(folder / "cache")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def brought(requirements: Iterable[str]) -> set[str]:
    """Return the distributions that come with these requirements: their own, and the extras of fedteddi they name."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = name_of(requirement)
        if own := re.match(r"fedteddi\[(.+)\]", requirement):
            waiting += [one for extra in own[1].split(",") for one in EXTRAS[extra]]
        elif name not in found:
            found.add(name)
            with suppress(PackageNotFoundError):  # for another system
                waiting += [one for one in requires(name) or [] if "extra ==" not in one]
    return found


@pytest.mark.parametrize("module", BROUGHT_BY)
def test_the_extra_that_is_named_brings_the_module(module: str) -> None:
    """By the metadata of what is installed; what is not, is taken to be called as its module. `all` lacks nothing."""
    for extra in (*BROUGHT_BY[module], "all"):
        assert brought(EXTRAS[extra]) & GIVERS.get(module, {module}), f"{extra} does not bring {module}"


def test_the_core_brings_no_module_of_an_extra() -> None:
    core = brought(PROJECT["project"]["dependencies"])
    for module in BROUGHT_BY:
        assert not core & GIVERS.get(module, {module}), module


def test_all_is_every_extra() -> None:
    (everything,) = EXTRAS["all"]
    assert everything == f"fedteddi[{','.join(FOR_USERS)}]"


def test_every_extra_is_on_the_page_about_installing() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| .+ \|$", page, re.MULTILINE)
    measured = re.findall(r"^\| `pip install 'fedteddi\[(\w+)\]'` \| \d+ \| [\d,]+ \|", page, re.MULTILINE)
    assert listed == [*FOR_USERS, "all"]
    assert {"sim", "all"} <= set(measured) <= set(listed)


def test_the_import_rules_know_every_module_of_an_extra() -> None:
    """What is lazy in the core today would otherwise be imported by one line tomorrow."""
    (core,) = (modules for name, modules in FORBIDDEN.items() if name.startswith("The core needs no extra"))
    assert set(core) == set(BROUGHT_BY)


def test_only_one_place_says_how_to_install_an_extra() -> None:
    """Docstrings may repeat it, code asks `install_command`."""
    for file in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in said and "pip install" in str(node.value):
                assert file.name == "extras.py", f"{file}, line {node.lineno}"


def test_one_sentence_names_module_and_command() -> None:
    with pytest.raises(InputError) as caught, explained("fedteddi.simulate"):
        raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")
    told = "fedteddi.simulate needs torch, which is not installed: pip install 'fedteddi[sim]'"
    assert str(caught.value) == told
    assert isinstance(
        caught.value, ImportError
    )  # whoever tries an import and goes on without is not surprised
    assert isinstance(caught.value, MissingExtraError)
    assert caught.value.name == "torch"


def test_what_an_inner_part_lacks_is_said_once() -> None:
    with (
        pytest.raises(InputError, match=r"^the inner one needs ray"),
        explained("outside"),
        explained("the inner one"),
    ):
        raise ModuleNotFoundError(name="ray")


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'nonsuch'", name="nonsuch"),
        ModuleNotFoundError("by hand"),
        ImportError("cannot import name 'x' from 'torch'", name="torch"),
        ValueError("torch"),
    ],
)
def test_other_failures_stay_what_they_are(error: Exception) -> None:
    assert missing_extra("this", error) is None
    with pytest.raises(type(error)) as caught, explained("this"):
        raise error
    assert caught.value is error


def test_methods_of_a_class_say_what_they_lack() -> None:
    @explains_missing
    class Drawing:
        def __init__(self, size: int) -> None:
            self.size = size

        def draw(self, times: int = 1) -> int:
            """Draw."""
            if times > 2:
                raise ModuleNotFoundError(name="matplotlib.figure")
            return self.size * times

    assert Drawing(3).draw(times=2) == 6
    assert Drawing.draw.__doc__ == "Draw."
    with pytest.raises(InputError, match=r"^Drawing\.draw needs matplotlib, .* 'fedteddi\[sim\]'; to report"):
        Drawing(3).draw(3)
