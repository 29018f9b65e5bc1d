"""Puts the built site where it is served from: a folder for each version, the newest first.

    zensical build --strict --clean && python docs/make_site.py build/pages

Beside the folders stand `versions.json`, from which the pages fill their list of versions, and an
`index.html` that leads to the newest. Run into a folder that has other versions, it keeps them;
the same version is replaced. Any server of files can serve it.
"""

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
_FORWARD = """<!doctype html>
<meta charset="utf-8">
<title>AGORA</title>
<meta http-equiv="refresh" content="0; url={version}/">
<a href="{version}/">AGORA {version}</a>
"""


def publish(site: Path, pages: Path, version: str) -> None:
    """Copy a site to the folder of its version, and name that in the list."""
    target = pages / version
    if target.exists():
        shutil.rmtree(target)
    # The scripts beside the pages make them; nobody reads them there.
    shutil.copytree(site, target, ignore=shutil.ignore_patterns("*.py", "*.cast"))
    index = target / "search.json"
    found = json.loads(index.read_text(encoding="utf-8"))
    found["items"] = folded(found["items"])
    index.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    there = [path.name for path in pages.iterdir() if re.fullmatch(r"\d+\.\d+", path.name)]
    versions = sorted(there, key=lambda name: tuple(map(int, name.split("."))), reverse=True)
    listed = [
        {"version": name, "title": name, "aliases": [] if n else ["latest"]}
        for n, name in enumerate(versions)
    ]
    (pages / "versions.json").write_text(json.dumps(listed), encoding="utf-8")
    (pages / "index.html").write_text(_FORWARD.format(version=versions[0]), encoding="utf-8")


def folded(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is searched: members with their class, long reports and the log by title.

    Each section has a heading of its own, and who looks for a word would see ten fields of that
    name, or ten entries of the log, before the page that explains it.
    """
    kept: list[dict[str, Any]] = []
    for item in items:
        if item["location"].startswith(_LONG) and item["level"] > 1:
            continue
        if item["location"].startswith("reference/") and item["level"] > 2 and kept:
            kept[-1]["text"] += f" {item['title']} {item['text']}"
        else:
            kept.append(dict(item))
    return kept


def main() -> None:
    """Publish the site that was built last."""
    said = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = Path(sys.argv[1])
    pages.mkdir(parents=True, exist_ok=True)
    publish(SITE, pages, said["version"].rpartition(".")[0])


if __name__ == "__main__":
    main()
