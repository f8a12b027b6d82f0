"""Play the notebooks: run the cells of each in an empty folder, and save it with what they show.

    python scripts/notebooks.py examples/notebooks/*.ipynb                    # in place; make tutorial does this, too
    python scripts/notebooks.py examples/notebooks/*.ipynb --into FOLDER      # elsewhere

What is saved depends on the cells alone: no times, no versions, no numbers of executions.
"""

import argparse
import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_LIMIT_S = 600
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def played(file: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs that its cells have now; a cell that fails raises `CellExecutionError`."""
    notebook = nbformat.read(file, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "work").mkdir()
        own = {"FEDTEDDI_CACHE": "cache", "IPYTHONDIR": "ipython", "JUPYTER_RUNTIME_DIR": "jupyter"}
        os.environ |= {name: str(home / place) for name, place in own.items()} | {"OMP_NUM_THREADS": "1"}
        client = NotebookClient(
            notebook,
            timeout=CELL_LIMIT_S,
            record_timing=False,
            resources={"metadata": {"path": str(home / "work")}},
        )
        client.execute()
    return tidied(notebook)


def tidied(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a notebook without what differs from one execution to the next."""
    notebook.metadata = KERNEL
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = None
    return notebook


def main() -> None:
    """Play the notebooks that are named."""
    parser = argparse.ArgumentParser(description="Play notebooks.")
    parser.add_argument("notebooks", nargs="+", type=Path, help="files that end in .ipynb")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="where to write them; default: in place")
    given = parser.parse_args()
    for file in given.notebooks:
        target = file if given.into is None else given.into / file.name
        nbformat.write(played(file), target)
        print(target)


if __name__ == "__main__":
    main()
