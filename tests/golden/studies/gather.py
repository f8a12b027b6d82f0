"""Gather the tables of the committed studies as they were before the studies were rebuilt (revision fa43d51).

    python tests/golden/studies/gather.py

Reads the CSV files and the Markdown tables under docs/results of that revision from git, and writes NAME.json beside
this file: every table as {"columns": [...], "rows": [[...]]}, all cells as text.
"""

import csv
import io
import json
import re
import subprocess
from pathlib import Path

REVISION = "fa43d51"
HERE = Path(__file__).parent
STUDIES = ("cifar10", "cifar100", "plus-cifar10", "plus-cifar100", "plus-fashion", "plus-ablation")
LEFT_OUT = ("costs-", "against-each-rival-")  # made of the same rounds by results/tables.py, which stayed


def shown(path: str) -> str:
    """Return a file, or a folder's listing, of the revision."""
    words = ["git", "show", f"{REVISION}:docs/results/{path}"]
    return subprocess.run(words, cwd=HERE, capture_output=True, text=True, check=True).stdout


def of_csv(folder: str) -> dict[str, object]:
    """Return the CSV tables of a folder by name."""
    found = {}
    for name in sorted(line for line in shown(folder).splitlines() if line.endswith(".csv")):
        if not name.startswith(LEFT_OUT):
            columns, *rows = csv.reader(io.StringIO(shown(f"{folder}/{name}")))
            found[name.removesuffix(".csv")] = {"columns": columns, "rows": rows}
    return found


def of_page(page: str) -> dict[str, object]:
    """Return the Markdown tables of a page, in order."""
    found = {}
    tables = re.findall(r"(?:^\|.*\|\n)+", shown(page), re.MULTILINE)
    for number, table in enumerate(tables):
        columns, _, *rows = [re.split(r" \| ", line[2:-2]) for line in table.splitlines()]
        found[str(number)] = {"columns": columns, "rows": rows}
    return found


def main() -> None:
    """Write one file a study."""
    gathered = {name: of_csv(name) for name in (*STUDIES, "sensitivity")}
    gathered |= {name: of_page(f"{name}.md") for name in ("bound", "precision")}
    for name, tables in gathered.items():
        lines = [
            f" {json.dumps(title)}: {json.dumps(table, ensure_ascii=False)}"
            for title, table in tables.items()
        ]
        (HERE / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
