from pathlib import Path

import pytest

from tests.docs.pages import DOCS, anchors, links, name_of, navigation, pages


def internal(page: Path) -> list[str]:
    targets = links(page.read_text(encoding="utf-8"))
    return [link for link in targets if "://" not in link and not link.startswith("mailto:")]


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
