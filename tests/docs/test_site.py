"""The site as it is served: versions beside each other, a search that finds pages."""

import json
import tomllib
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT
from tests.docs.test_made_pages import maker

SITE = maker("make_site.py")


def built(folder: Path, *items: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "index.html").write_text("a page", encoding="utf-8")
    (folder / "make_cli.py").write_text("a script", encoding="utf-8")
    (folder / "search.json").write_text(json.dumps({"items": items}), encoding="utf-8")
    return folder


def test_versions_stand_beside_each_other_and_the_newest_is_shown_first(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    site = built(tmp_path / "site")
    for version in ("0.9", "0.10", "0.3"):
        SITE.publish(site, pages, version)

    listed = json.loads((pages / "versions.json").read_text(encoding="utf-8"))
    assert [one["version"] for one in listed] == ["0.10", "0.9", "0.3"]
    assert [one["aliases"] for one in listed] == [["latest"], [], []]
    assert "url=0.10/" in (pages / "index.html").read_text(encoding="utf-8")
    assert (pages / "0.9" / "index.html").is_file()


def test_publishing_a_version_again_replaces_it_and_leaves_scripts_out(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    (pages / "0.3").mkdir(parents=True)
    (pages / "0.3" / "gone.html").write_text("an old page", encoding="utf-8")
    SITE.publish(built(tmp_path / "site"), pages, "0.3")

    assert {path.name for path in (pages / "0.3").iterdir()} == {"index.html", "search.json"}


def test_a_field_is_found_with_its_class_and_a_page_by_its_own_heading() -> None:
    def item(location: str, level: int, title: str) -> dict[str, Any]:
        return {"location": location, "level": level, "title": title, "text": f"on {title}"}

    found = SITE.folded(
        [
            item("reference/agora/#agora.Compressor", 2, "Compressor"),
            item("reference/agora/#agora.Compressor.ceiling", 3, "ceiling"),
            item("log/#2026-11-17-the-ceiling", 2, "2026-11-17 The ceiling"),
            item("concepts/bill/#the-ceiling", 3, "The ceiling"),
        ]
    )

    assert [one["title"] for one in found] == ["Compressor", "The ceiling"]
    assert "on ceiling" in found[0]["text"]


def test_the_log_and_the_long_results_stand_behind_evidence() -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    tabs = {name: json.dumps(inside) for tab in settings["nav"] for name, inside in tab.items()}

    holding = {name for name, inside in tabs.items() if "log.md" in inside or "results/" in inside}
    assert holding == {"Evidence"}
    assert len(tabs) <= 8
    assert settings["extra"]["version"]["provider"] == "mike"
