"""Build the documentation's site in build/site, strictly: whatever is wrong with a link ends it with exit code 1.

python scripts/docs_site/build.py     # or make docs
"""

import os
import subprocess
import sys
from pathlib import Path

from check import faults, lost
from stage import PAGES, ROOT, stage

SITE = ROOT / "build" / "site"
# Loaded by every page so that search works without a server; docs/worker.js does the same from the site itself.
FOREIGN = "https://unpkg.com/iframe-worker/shim"


def main() -> None:
    """Gather the pages, build them, and check the result."""
    stage()
    zensical = Path(sys.executable).with_name("zensical")
    built = subprocess.run([zensical, "build", "--strict", "--clean"], cwd=ROOT, check=False)
    if built.returncode:
        sys.exit("the site was not built: mend what is named above (pages in build/pages come from docs/)")
    for page in SITE.rglob("*.html"):
        own = os.path.relpath(SITE / "worker.js", page.parent)
        page.write_text(page.read_text(encoding="utf-8").replace(FOREIGN, own), encoding="utf-8")
    if wrong := faults(SITE) + lost(PAGES, SITE):
        sys.exit("\n".join(wrong))
    print(
        f"{SITE / 'index.html'}: every link and anchor leads somewhere, and nothing is fetched from elsewhere"
    )


if __name__ == "__main__":
    main()
