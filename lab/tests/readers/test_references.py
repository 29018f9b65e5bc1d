from typing import Any

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


def test_a_reader_sees_the_lines_that_a_reference_stands_for() -> None:
    compressor = Compressor(repeats=True)
    sent = compressor.compress(CHAT, format="openai", observations="user").messages

    assert sent != CHAT
    assert looked_up(sent) == CHAT


def test_a_prompt_without_references_is_as_it_was() -> None:
    assert looked_up(CHAT) is CHAT
