"""An agent's loop: keep every message, send the compressed ones."""

import json
import sys
from typing import Any

import agora

MODEL = "gpt-5-mini"
Messages = list[dict[str, Any]]


def ask_model(messages: Messages, step: int) -> dict[str, Any]:  # noqa: ARG001
    """Stand in for a provider: ask for one file after the other, and then answer."""
    if step == 60:
        return {"role": "assistant", "content": "load_config reads part_41, which is empty."}
    function = {"name": "read_file", "arguments": json.dumps({"path": f"src/part_{step}.py"})}
    call = {"id": f"call_{step}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def read_file(path: str) -> str:
    """Stand in for a tool."""
    return f"# {path}\n" + "value = compute(value)\n" * 90


def main() -> None:
    """Run until the model answers, and tell what was sent."""
    messages: Messages = [
        {"role": "system", "content": "You repair Python projects."},
        {"role": "user", "content": "Find out why load_config fails."},
    ]
    whole = sent = edits = 0
    for step in range(1, 61):
        compression = agora.compress(messages, model=MODEL)
        whole += compression.tokens_before
        sent += compression.tokens_after
        edits += compression.changed
        answer = ask_model(compression.messages, step)
        messages.append(answer)
        for call in answer.get("tool_calls") or ():
            path = json.loads(call["function"]["arguments"])["path"]
            result = read_file(path)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    sys.stdout.write(f"{messages[-1]['content']}\n")
    sys.stdout.write(f"{whole:,} tokens became {sent:,}; {edits} of 60 calls were shortened\n")


if __name__ == "__main__":
    main()
