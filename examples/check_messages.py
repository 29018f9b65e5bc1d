"""The validator on its own: which rules of the provider these messages break."""

import sys

import agora

CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
MESSAGES = [
    {"role": "user", "content": "Find the key."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "user", "content": "Are you still there?"},
]


def main() -> None:
    """Say what is wrong, and what is not."""
    for broken in agora.validate(MESSAGES, format="openai"):
        sys.stdout.write(f"message {broken.position}: {broken.error}\n")
    answered = [*MESSAGES[:2], {"role": "tool", "tool_call_id": "call_1", "content": "a door"}]
    sys.stdout.write(f"with its result: {agora.validate(answered, format='openai') or 'legal'}\n")


if __name__ == "__main__":
    main()
