from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, links, name_of, navigation, pages, words


def internal(page: Path) -> list[str]:
    found = links(page.read_text(encoding="utf-8"))
    return [target for target in found if "://" not in target and not target.startswith("mailto:")]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_internal_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in internal(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        # On a picture it is not a place but the colours that it is for: #only-dark.
        named = anchor and file.suffix == ".md"
        if not file.exists() or (named and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(target)

    assert broken == []


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name_of)
def test_a_page_of_the_site_links_to_nothing_outside_of_it(page: Path) -> None:
    leaving = [
        target
        for target in internal(page)
        if DOCS not in (page.parent / target.partition("#")[0]).resolve().parents
        and target.partition("#")[0]
    ]

    assert leaving == []


def test_every_page_of_the_navigation_exists_and_is_listed_once() -> None:
    listed = navigation()

    assert [page for page in listed if not (DOCS / page).exists()] == []
    assert len(listed) == len(set(listed))


def test_every_page_is_reached_from_the_navigation() -> None:
    reached: set[Path] = set()
    todo = [(DOCS / page).resolve() for page in navigation()]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        todo += [(page.parent / target.partition("#")[0]).resolve() for target in internal(page)]
    lost = [name_of(page) for page in DOCS.rglob("*.md") if page.resolve() not in reached]

    assert lost == [], "add them to nav in zensical.toml, or link to them"


def test_the_readme_names_no_file_that_is_not_there() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    for name in ("LICENSE", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"):
        assert name in text
        assert (ROOT / name).exists()


def test_no_page_that_is_written_to_be_read_through_is_longer_than_1500_words() -> None:
    looked_up = ("docs/log.md", "docs/reference/", "docs/results", "docs/cli/")
    long = {
        name_of(page): count
        for page in DOCS.rglob("*.md")
        if not name_of(page).startswith(looked_up)
        and (count := len(words(page.read_text(encoding="utf-8")))) > 1_500
    }

    assert long == {}, "split it: what a reader needs first, and the rest on a page of its own"
