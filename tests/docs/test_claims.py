"""Sentences of the pages that were wrong once."""

import re
from pathlib import Path

import pytest

from agora.core.renditions.gone import gone
from agora.core.renditions.markers import FormMarkers
from tests.docs.pages import DOCS, ROOT, name_of, pages

RECORDS = ("CHANGELOG.md", "docs/log.md", "docs/decisions/", "docs/results")
"""What was written at its time and is not rewritten."""
PAGES = [page for page in pages() if not name_of(page).startswith(RECORDS)]
FALSE = {
    r"(?i)copied word for word": "a line is shorter than its step",
    r"(?i)\btool(,| and) user text\b": "what tools return is shortened; their definitions are not",
}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_claims_what_is_not_so(page: Path) -> None:
    text = " ".join(page.read_text(encoding="utf-8").split())

    assert [why for claim, why in FALSE.items() if re.search(claim, text)] == []


@pytest.mark.parametrize("page", [DOCS / "integrations/index.md", DOCS / "integrations/litellm.md"])
def test_whoever_is_told_of_litellms_callback_is_told_which_calls_run_it(page: Path) -> None:
    told = [line for line in page.read_text().splitlines() if "[AgoraLogger()]" in line]
    runs = re.compile(r"asynchronous|await |acompletion")

    assert told
    assert runs.search(page.read_text().partition(told[0])[2][:400] + told[0])


def test_the_readme_says_which_calls_of_litellm_are_compressed() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "[LiteLLM](docs/integrations/litellm.md) (asynchronous calls)" in readme


def head_of(marker: str) -> str:
    """Return the first line of a marker up to its bracket, numbers and code left out."""
    head = marker.partition("]")[0].partition("\n")[0]
    return re.sub(r"#[0-9a-f]{4}", "#", re.sub(r"\d+(?![0-9a-f]*$)", "0", head))


def test_markers_on_the_page_of_agents_are_those_that_are_written_today() -> None:
    text = (DOCS / "guides" / "coding-agents.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\[steps? \d.*", text, re.MULTILINE)
    runs = ([gone(3)], [gone(3), gone(4)])
    written = {
        head_of(marker)
        for first in (3, 1)
        for markers in (FormMarkers(code="a7f3", first=first),)
        for marker in (
            markers.note(3, ""),
            *(markers.run(run, signed=signed) for run in runs for signed in (False, True)),
        )
    }

    assert shown
    assert {head_of(marker) for marker in shown} - written == set()


def test_what_is_written_by_hand_on_the_page_of_agents_is_not_overwritten_by_the_next_run() -> None:
    text = (DOCS / "guides" / "coding-agents.md").read_text(encoding="utf-8")
    made = text.partition("<!-- sessions -->")[2].partition("<!-- /sessions -->")[0]

    assert re.findall(r"^## .*", made, re.MULTILINE) == ["## What the model sees"]
