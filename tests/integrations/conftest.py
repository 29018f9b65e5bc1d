"""What the suites of all integrations share."""

import pytest
from agora.sent_thinking import SentThinking

from agora import bound_thinking


@pytest.fixture(autouse=True)
def _as_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripted conversations repeat their ids: none may find what another left in memory."""
    monkeypatch.setattr(bound_thinking, "_sent", SentThinking())
