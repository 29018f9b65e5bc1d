"""Puts the built site where it is served from: a folder for each version, the newest first.

    zensical build --strict --clean && python docs/make_site.py build/pages

Beside the folders it writes `versions.json`, from which the pages fill their list of versions, and
an `index.html` that leads to the newest. Other versions in the folder are kept; the same version
is replaced. Any file server can serve it.
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
    """Copy a site to the folder of its version, and list that version."""
    target = pages / version
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(site, target, ignore=shutil.ignore_patterns("*.py"))
    index = target / "search.json"
    search = json.loads(index.read_text(encoding="utf-8"))
    search["items"] = members_with_their_class(search["items"])
    index.write_text(json.dumps(search, ensure_ascii=False), encoding="utf-8")
    folders = [path.name for path in pages.iterdir() if re.fullmatch(r"\d+\.\d+", path.name)]
    versions = sorted(folders, key=lambda name: tuple(map(int, name.split("."))), reverse=True)
    entries = [
        {"version": name, "title": name, "aliases": [] if n else ["latest"]}
        for n, name in enumerate(versions)
    ]
    (pages / "versions.json").write_text(json.dumps(entries), encoding="utf-8")
    (pages / "index.html").write_text(_FORWARD.format(version=versions[0]), encoding="utf-8")


def members_with_their_class(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge each member of the Python reference into the search entry of its class.

    Otherwise a search for a common word lists ten fields of that name before the page about it.
    """
    merged: list[dict[str, Any]] = []
    for item in items:
        if item["location"].startswith("reference/python/") and item["level"] > 3 and merged:
            merged[-1]["text"] += f" {item['title']} {item['text']}"
        else:
            merged.append(dict(item))
    return merged


def main() -> None:
    """Publish the site that was built last."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = Path(sys.argv[1])
    pages.mkdir(parents=True, exist_ok=True)
    publish(SITE, pages, project["version"].rpartition(".")[0])


if __name__ == "__main__":
    main()
