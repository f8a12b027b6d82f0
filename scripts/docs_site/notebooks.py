"""A notebook as a page: its text, its code, and the outputs it was saved with."""

import base64
import json
from pathlib import Path
from typing import Any


def notebook_page(notebook: Path, page: Path) -> None:
    """Write a notebook (.ipynb) as a page (.md), with its pictures beside it."""
    pictures: list[bytes] = []
    parts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source:
            parts.append(f"````python\n{source}\n````")
            parts += [_output(one, page, pictures) for one in cell["outputs"]]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    for number, picture in enumerate(pictures):
        page.with_name(f"{page.stem}-{number}.png").write_bytes(picture)


def _output(output: dict[str, Any], page: Path, pictures: list[bytes]) -> str:
    """Return an output as Markdown: the richest form of it that a page can show."""
    if output["output_type"] == "stream":
        return _text("".join(output["text"])) if output["name"] == "stdout" else ""
    if output["output_type"] == "error":
        raise ValueError(f"{page.stem}: a cell ends with {output['ename']}: {output['evalue']}")
    data = output["data"]
    if "text/html" in data:
        return f"<div>\n{''.join(data['text/html']).strip()}\n</div>".replace("\n\n", "\n")
    if "image/png" in data:
        pictures.append(base64.b64decode("".join(data["image/png"])))
        return f"![output]({page.stem}-{len(pictures) - 1}.png)"
    return _text("".join(data.get("text/plain", "")))


def _text(text: str) -> str:
    return f"````text\n{text.rstrip()}\n````" if text.strip() else ""
