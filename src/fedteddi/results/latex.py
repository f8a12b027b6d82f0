"""A table of text as LaTeX, with the rules of the package booktabs."""

import pandas as pd

# What LaTeX would take for a command, and what is typeset in mathematics.
TYPESET = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    ">": r"$>$",
    "<": r"$<$",
    "|": r"$|$",
    "[": "{[}",  # after \\ it would begin an optional argument
    "λ": r"$\lambda$",
    "σ": r"$\sigma$",
    "–": "--",
    "−": "$-$",
}


def booktabs(table: pd.DataFrame, *, caption: str | None = None, label: str | None = None) -> str:
    """Return a table as LaTeX; the first columns hold words, all that hold numbers are set flush right."""
    columns = "".join("r" if _is_numeric(table[name]) else "l" for name in table.columns)
    lines = [r"% \usepackage{booktabs}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _row(table.columns)]
    lines += [r"\midrule", *(_row(row) for row in table.itertuples(index=False)), r"\bottomrule"]
    lines.append(r"\end{tabular}")
    if caption is None and label is None:
        return "\n".join(lines) + "\n"
    named = [] if caption is None else [rf"\caption{{{typeset(caption)}}}"]
    named += [] if label is None else [rf"\label{{{label}}}"]
    floating = [lines[0], r"\begin{table}", r"\centering", *named, *lines[1:], r"\end{table}"]
    return "\n".join(floating) + "\n"


def typeset(value: object) -> str:
    """Return a value as LaTeX prints it, not as LaTeX would read it."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    text = text.replace("L\u0302", "\0")  # an L with a combining circumflex
    return "".join(TYPESET.get(sign, sign) for sign in text).replace("\0", r"$\hat{L}$")


def _row(cells: object) -> str:
    return " & ".join(typeset(cell) for cell in cells) + r" \\"  # type: ignore[attr-defined]


def _is_numeric(column: pd.Series) -> bool:
    """Whether cells are numbers, or text that begins with one."""
    return all(str(cell)[:1] in "0123456789+-−>–≥≤." for cell in column)
