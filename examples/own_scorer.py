"""A scorer in ten lines: steps that changed something get room before steps that looked."""

import sys
from collections.abc import Sequence
from typing import Any

import agora
from agora.core.trajectory import Query, Step
from agora.testing import check_scorer

CHANGING = ("edit", "write", "create", "delete", "run")


class ChangesFirst:
    """Scores a step by whether its action changes something."""

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:  # noqa: ARG002
        """Return a high score for actions that change something, a low one for the others."""
        return [0.9 if step.action.startswith(CHANGING) else 0.1 for step in steps]


def main() -> None:
    """Check it, and use it."""
    check_scorer(ChangesFirst())
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Repair the export."}]
    for n in range(1, 25):
        name = "edit_file" if n % 6 == 0 else "read_file"
        function = {"name": name, "arguments": f'{{"path": "src/part_{n}.py"}}'}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": "x = 1\n" * 60})
    compressor = agora.Compressor(scorer=ChangesFirst(), edits="every_call")
    compression = compressor.compress(messages)
    kept = [d.number for d in compression.decisions if d.outcome == "kept"]
    sys.stdout.write(f"{compression.summary()}\nkept by score: {kept}\n")


if __name__ == "__main__":
    main()
