"""SWE-agent's last-n observations, by the rules of its history processor."""

from collections.abc import Callable
from typing import Any

TITLE = "SWE-agent last n"
SOURCE = "SWE-agent 1.x, last_n_observations: rules read in its source; not on PyPI, so our lines"
SETTINGS: dict[str, dict[str, Any]] = {
    "n 5 (its 0.7 config)": {"n": 5, "polling": 1},
    "n 5, polling 10": {"n": 5, "polling": 10},
}


def prepare(settings: dict[str, int]) -> Callable[..., Any]:
    """Return the hook. The first observation, there the task, is the user's text here."""
    n, polling = settings["n"], settings["polling"]

    def edit(messages: list[dict[str, Any]], _about: dict[str, Any]) -> list[dict[str, Any]]:
        results = [at for at, message in enumerate(messages) if message["role"] == "tool"]
        whole = 1 + len(results)
        last = max(0, whole // polling * polling - n)
        old = set(results[: max(0, last - 1)])
        return [
            {**m, "content": _elided(m["content"])} if at in old else m
            for at, m in enumerate(messages)
        ]

    return edit


def _elided(text: str) -> str:
    return f"Old environment output: ({len(text.splitlines())} lines omitted)"
