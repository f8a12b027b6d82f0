"""Check a built site: every link, picture and anchor in it leads somewhere, and nothing is fetched from elsewhere."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

# What a browser fetches by itself; the href of an <a> is followed by people only.
FETCHED = {
    *(
        ("script", "src"),
        ("img", "src"),
        ("img", "srcset"),
        ("link", "href"),
        ("iframe", "src"),
        ("source", "src"),
    ),
    *(
        ("source", "srcset"),
        ("video", "src"),
        ("audio", "src"),
        ("object", "data"),
        ("embed", "src"),
        ("use", "href"),
    ),
}
NEVER_FETCHED = {"canonical", "alternate", "next", "prev"}  # <link rel>
OF_CSS = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class Page(HTMLParser):
    """What a page has: addresses, with whether a browser fetches them, and anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[tuple[str, bool]] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's addresses and its anchor."""
        given = {name: value for name, value in attrs if value}
        self.anchors |= {
            given[name] for name in ("id", "name") if name in given and (tag == "a" or name == "id")
        }
        for name, value in given.items():
            if (tag, name) in FETCHED and given.get("rel") not in NEVER_FETCHED:
                self.addresses.append((value, True))
            elif (tag, name) == ("a", "href"):
                self.addresses.append((value, False))
            elif name == "style":
                self.addresses += [(one, True) for one in of_css(value)]


def of_css(text: str) -> list[str]:
    """Return the addresses that a style sheet fetches."""
    return [one or other for one, other in OF_CSS.findall(text)]


def faults(site: Path) -> list[str]:
    """Return what is wrong, one sentence each; an empty list: all is well."""
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        for address, fetched in page.addresses:
            found += [
                f"{file.relative_to(site)}: {why}" for why in _wrong(site, file, address, fetched, pages)
            ]
    for file in sorted(site.rglob("*.css")):
        for address in of_css(file.read_text(encoding="utf-8")):
            found += [f"{file.relative_to(site)}: {why}" for why in _wrong(site, file, address, True, pages)]
    return found


def lost(pages: Path, site: Path) -> list[str]:
    """Return where the site has fewer or more lists, tables, code or pictures than GitHub makes of the same page."""
    github = MarkdownIt("commonmark").enable("table")
    found = []
    for page in sorted(pages.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        built = site / page.relative_to(pages).with_suffix(".html")
        if page.name == "README.md":
            built = built.with_name("index.html")
        article = built.read_text(encoding="utf-8").partition("<article")[2].partition("</article")[0]
        for tag in (
            () if "\n::: " in text or text.startswith("---") else ("li", "pre", "table", "tr", "h2", "img")
        ):
            shown, meant = (len(re.findall(rf"<{tag}\b", one)) for one in (article, github.render(text)))
            if shown != meant:
                found.append(
                    f"{page.relative_to(pages)}: {meant} <{tag}> on GitHub, {shown} on the site (blank lines?)"
                )
    return found


def _wrong(site: Path, file: Path, address: str, fetched: bool, pages: dict[Path, Page]) -> Iterator[str]:
    parts = urlsplit(address)
    if parts.scheme in ("http", "https") or parts.netloc:
        if fetched:
            yield f"fetches {address} when it is read"
        return
    if parts.scheme:  # mailto:, data:
        return
    aim = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if aim.is_dir():
        aim /= "index.html"
    if not aim.is_relative_to(site.resolve()) or not aim.exists():
        # Written for the server's root: only the page that a server shows in place of a missing one.
        if file.name != "404.html":
            yield f"leads to {address}, which is not there"
    elif (
        parts.fragment
        and aim in pages
        and unquote(parts.fragment) not in pages[aim].anchors | {"__search", "__toc"}
    ):
        yield f"leads to {address}, whose page has no such anchor"
