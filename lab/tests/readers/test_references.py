from typing import Any

import pytest

from agora.compressor import Compressor
from agora_lab.chats import looked_up

VIEW = "\n".join(f"line {number} of what is seen again and again" for number in range(30))
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Look."},
    {"role": "user", "content": "Look at it twice."},
    {"role": "assistant", "content": "look"},
    {"role": "user", "content": VIEW},
    {"role": "assistant", "content": "look"},
    {"role": "user", "content": f"Now:\n{VIEW}"},
]


CALLS: list[dict[str, Any]] = [
    CHAT[0],
    CHAT[1],
    *[
        message
        for number in (1, 2)
        for message in (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": f"call_{number}",
                        "type": "function",
                        "function": {"name": "look", "arguments": "{}"},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": f"call_{number}", "content": VIEW},
        )
    ],
]


@pytest.mark.parametrize(("chat", "observations"), [(CHAT, "user"), (CALLS, None)])
def test_a_reader_sees_the_lines_that_a_reference_stands_for(chat: Any, observations: Any) -> None:
    compressor = Compressor(repeats=True)
    sent = compressor.compress(chat, format="openai", observations=observations).messages

    assert sent != chat
    assert looked_up(sent) == chat


def test_a_prompt_without_references_is_as_it_was() -> None:
    assert looked_up(CHAT) is CHAT
