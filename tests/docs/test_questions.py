from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, links, name_of

PAGE = DOCS / "questions.md"
QUESTIONS = (
    "What is it?",
    "When does it pay?",
    "Does it break my cache?",
    "Can it lose my instructions?",
    "How do I switch it off?",
    "What does it send where?",
    "Which models?",
    "How do I see what it did?",
    "How do I undo it?",
    "How does it compare with X?",
)


def rows() -> dict[str, str]:
    """Return the row of each question."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}


def below(page: Path) -> set[Path]:
    """Return the pages that a page links to."""
    found = links(page.read_text(encoding="utf-8"))
    targets = {target.partition("#")[0] for target in found if "://" not in target}
    return {(page.parent / target).resolve() for target in targets if target}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_with_a_place_that_is_there(question: str) -> None:
    found = list(links(rows()[question]))

    assert found
    for target in found:
        path, _, anchor = target.partition("#")
        page = DOCS / path
        assert page.is_file(), target
        assert not anchor or anchor in anchors(page.read_text(encoding="utf-8")), target


def test_the_page_has_these_ten_questions_and_no_others() -> None:
    assert [name for name in rows() if name.endswith("?")] == list(QUESTIONS)


@pytest.mark.parametrize("start", [ROOT / "README.md", DOCS / "index.md"], ids=name_of)
def test_every_answer_is_at_most_two_clicks_away(start: Path) -> None:
    first = below(start) | {start}
    reached = first | {page for one in first if one.suffix == ".md" for page in below(one)}

    assert PAGE in first
    assert below(PAGE) - reached == set()
