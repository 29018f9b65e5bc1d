"""Prompts that are one text: role-marker transcripts, and ReAct lines."""

import re

from agora.adapters.format import Format
from agora.adapters.react import ReActText
from agora.adapters.rules.texts import check_react, check_transcript
from agora.adapters.transcript import RoleTranscript

TRANSCRIPT = Format(
    adapter=RoleTranscript(),
    check=check_transcript,
    mark=re.compile(r"(?:^|\s)\[(?:SYSTEM|USER|ASSISTANT)\]"),
)
REACT = Format(
    adapter=ReActText(),
    check=check_react,
    mark=re.compile(r"^(?:Thought|Action|Observation)(?: \d{1,6})?:", re.MULTILINE),
)
