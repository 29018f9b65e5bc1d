"""Role-marker transcripts: prompts that are one text."""

import re

from agora.adapters.format import Format
from agora.adapters.rules.catalogue import Broken
from agora.adapters.rules.shape import wrong
from agora.adapters.transcript import RoleTranscript
from agora.core.request import Request


def _check(request: Request, _before: object) -> list[Broken]:
    """Return S1 when it is no text."""
    text = request.messages
    return [] if isinstance(text, str) else [wrong(0, text, "text", "a string")]


FORMAT = Format(
    adapter=RoleTranscript(),
    check=_check,
    mark=re.compile(r"(?:^|\s)\[(?:SYSTEM|USER|ASSISTANT)\]"),
)
