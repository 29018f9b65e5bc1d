"""What the command tests share: a runner, a trajectory and files of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests import command

EVERY_CALL = ("--edits", "every_call")
Run = Callable[..., Result]
Write = Callable[..., str]


def chat(steps: int, *, lines: int = 20) -> list[dict[str, Any]]:
    """Return a trajectory of chat messages in which each step brings a name of its own."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You repair Python projects."},
        {"role": "user", "content": "Find out why load_config fails."},
    ]
    for n in range(1, steps + 1):
        function = {"name": "read_file", "arguments": json.dumps({"path": f"src/part_{n}.py"})}
        call = {"id": f"call_{n}", "type": "function", "function": function}
        result = "value = compute(value)\n" * lines + f"symbol_{n}"
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{n}", "content": result},
        ]
    return messages


@pytest.fixture
def run() -> Run:
    """Return a function that runs `agora` with arguments and input."""

    def invoke(
        *arguments: str,
        input: str | bytes | None = None,  # noqa: A002 - click's own name
        **env: str,
    ) -> Result:
        cleared = {"NO_COLOR": None, "FORCE_COLOR": None, "COLUMNS": "80"}
        return command.run(*arguments, typed=input, **{**cleared, **env})

    return invoke


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a value as JSON, or a text as it is, and gives the path."""

    def to_file(value: object, name: str = "request.json") -> str:
        path = tmp_path / name
        text = value if isinstance(value, str) else json.dumps(value)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return to_file
