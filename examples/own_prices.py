"""When an edit pays: the same trajectory under different price sheets."""

import sys
from dataclasses import replace
from typing import Any

import agora
from agora.core.prices import sheet_for


def trajectory(steps: int) -> list[dict[str, Any]]:
    """Return a trajectory of so many steps."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Repair the export."}]
    for n in range(1, steps + 1):
        function = {"name": "read_file", "arguments": f'{{"path": "src/part_{n}.py"}}'}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": "x = 1\n" * 120})
    return messages


def main() -> None:
    """Find the first call at which each sheet says that an edit pays."""
    contract = replace(sheet_for("gpt-5"), name="our contract", read=0.5, write=1.0)
    for sheet in (sheet_for("gpt-5"), sheet_for("claude-sonnet-5"), contract):
        compressor = agora.Compressor(sheet=sheet)
        first = next(
            (steps for steps in range(1, 200) if compressor.compress(trajectory(steps)).changed),
            None,
        )
        when = "no edit pays within 200 steps" if first is None else f"first edit at step {first}"
        sys.stdout.write(
            f"{sheet.name:16} cached read {sheet.read:g}, write {sheet.write:g}: {when}\n"
        )


if __name__ == "__main__":
    main()
