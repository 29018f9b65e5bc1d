"""The same trajectory in the six formats, compressed alike."""

import sys
from typing import Any

import agora

COMPRESSOR = agora.Compressor(edits="every_call", budget=agora.Budget(keep_ratio=0.4))


def chat() -> list[dict[str, Any]]:
    """Return a trajectory as OpenAI chat messages."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find the key."}]
    for n in range(1, 13):
        function = {"name": "open", "arguments": f'{{"box": {n}}}'}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": OBSERVATION})
    return messages


def anthropic() -> list[dict[str, Any]]:
    """Return it as Anthropic messages."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find the key."}]
    for n in range(1, 13):
        use = {"type": "tool_use", "id": f"t{n}", "name": "open", "input": {"box": n}}
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": OBSERVATION}
        messages.append({"role": "assistant", "content": [use]})
        messages.append({"role": "user", "content": [result]})
    return messages


def responses() -> list[dict[str, Any]]:
    """Return it as items of the Responses API."""
    items: list[dict[str, Any]] = [{"role": "user", "content": "Find the key."}]
    for n in range(1, 13):
        call = {"call_id": f"c{n}", "name": "open", "arguments": f'{{"box": {n}}}'}
        items.append({"type": "function_call", **call})
        items.append({"type": "function_call_output", "call_id": f"c{n}", "output": OBSERVATION})
    return items


def gemini() -> list[dict[str, Any]]:
    """Return it as Gemini's contents."""
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Find the key."}]}]
    for n in range(1, 13):
        call = {"name": "open", "args": {"box": n}}
        response = {"name": "open", "response": {"output": OBSERVATION}}
        contents.append({"role": "model", "parts": [{"functionCall": call}]})
        contents.append({"role": "user", "parts": [{"functionResponse": response}]})
    return contents


def bedrock() -> list[dict[str, Any]]:
    """Return it as messages of Bedrock Converse."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"text": "Find the key."}]}]
    for n in range(1, 13):
        use = {"toolUseId": f"t{n}", "name": "open", "input": {"box": n}}
        result = {"toolUseId": f"t{n}", "content": [{"text": OBSERVATION}]}
        messages.append({"role": "assistant", "content": [{"toolUse": use}]})
        messages.append({"role": "user", "content": [{"toolResult": result}]})
    return messages


OBSERVATION = "It is empty, but for some dust and an old newspaper. " * 6
PROMPTS: dict[str, Any] = {
    "openai": chat(),
    "anthropic": anthropic(),
    "responses": responses(),
    "gemini": gemini(),
    "bedrock": bedrock(),
    "transcript": "[USER] Find the key.\n"
    + "".join(f"[ASSISTANT] open box {n}\n[USER] {OBSERVATION}\n" for n in range(1, 13)),
}


def main() -> None:
    """Compress each, and say what came out."""
    for name, prompt in PROMPTS.items():
        compression = COMPRESSOR.compress(prompt)
        sys.stdout.write(f"{name:10} found as {compression.format:10} {compression.summary()}\n")
        assert not agora.validate(compression.messages, format=name)


if __name__ == "__main__":
    main()
