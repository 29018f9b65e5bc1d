"""A replay's report as one page of HTML that fetches nothing."""

from collections.abc import Mapping
from typing import Any

from agora.pages import write_page


def page(report: Mapping[str, Any]) -> str:
    """Return the page, with the report inside."""
    return write_page("agora.replay", "page.html", report)
