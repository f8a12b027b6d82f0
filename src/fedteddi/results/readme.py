"""A study at a glance, for a README: a row per claim with a verdict for each accuracy, and who won which cell.

All numbers behind it are on the study's page.
"""

from collections.abc import Iterable

import pandas as pd

from fedteddi.errors import InputError
from fedteddi.results import tables
from fedteddi.results.cells import cells, cells_at_a_glance
from fedteddi.results.claims import OURS, Judged
from fedteddi.results.page_parts import NO_SEEDS, cautions, seeds_run
from fedteddi.results.reproduction import Reproduction
from fedteddi.results.runs import ACCURACIES, RunRecord, Study


def at_a_glance(reproduction: Reproduction, study: Study, failed: Iterable[RunRecord]) -> str:
    """Return a study's claims and cells as Markdown, and what a reader must know of its runs."""
    parts = [tables.markdown(_claims(reproduction.judged(study)))]
    if reproduction.ours != OURS:
        own = cells_at_a_glance(cells(study, reproduction.ours, reproduction.targets))
        parts += [tables.markdown(own)] if len(own) else []
    return "\n\n".join(
        part for part in (*parts, _seeds(reproduction, study), *cautions(study, failed)) if part
    )


def put_between_marks(text: str, name: str, content: str) -> str:
    """Replace what stands between `<!-- NAME begins -->` and `<!-- NAME ends -->`."""
    first, last = f"<!-- {name} begins -->", f"<!-- {name} ends -->"
    before, found, rest = text.partition(first)
    _, ended, after = rest.partition(last)
    if not found or not ended:
        raise InputError(
            f"there is no place for the results: write the lines {first} and {last} where they belong"
        )
    return f"{before}{first}\n{content}\n{last}{after}"


def _claims(judged: list[Judged]) -> pd.DataFrame:
    """Return a row per claim; what the paper says only where it says anything."""
    rows: dict[str, dict[str, str]] = {}
    for row in judged:
        nothing = dict.fromkeys(ACCURACIES, "–")
        found = rows.setdefault(row.claim, {"claim": row.claim, "paper": row.paper} | nothing)
        # A claim about no accuracy is the same for both.
        for accuracy in ACCURACIES if row.accuracy == "–" else (row.accuracy,):
            found[accuracy] = _verdict(row)
    table = pd.DataFrame(rows.values())
    return table.drop(columns="paper") if set(table["paper"]) == {"–"} else table


def _verdict(row: Judged) -> str:
    """Return the verdict above what was found in each place; what is the same everywhere only once."""
    verdict = f"**{row.verdict}**" if row.verdict == "holds" else row.verdict
    found = [finding.short for finding in row.findings]
    everywhere = {text.partition(": ")[2] for text in found}
    if len(found) > 1 and len(everywhere) == 1:
        found = list(everywhere)
    return "<br>".join([verdict, *found])


def _seeds(reproduction: Reproduction, study: Study) -> str:
    """Return a sentence on the seeds that were run, if the study is not whole: most rules', then what others have."""
    by_seeds: dict[str, list[str]] = {}
    for rule, seeds in seeds_run(reproduction, study).items():
        by_seeds.setdefault(seeds, []).append(rule)
    if not by_seeds:
        return ""
    groups = sorted(by_seeds.items(), key=lambda group: (group[0] == NO_SEEDS, -len(group[1])))
    others = [f"; of {', '.join(rules)}: {seeds}" for seeds, rules in groups[1:]]
    return f"Seeds run, of {', '.join(map(str, reproduction.seeds))}: {groups[0][0]}{''.join(others)}."
