"""A compression as one page of HTML: a timeline of its steps, the prompt before and after."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agora.cli.options import Setup
from agora.cli.picture import budget_of, in_short, why_unchanged
from agora.cli.source import Source
from agora.compressor import Compressor
from agora.core.compression import Compression, Decision, FallbackLevel
from agora.core.schedule import states
from agora.core.trajectory import Trajectory
from agora.formats import format_named
from agora.formats.cache_ttl import asked_ttl
from agora.pages import write_page

MOST_OF_A_TEXT = 20_000
"""Characters of one message that the page holds; the rest is counted."""
MOST_TEXT = 8_000_000
"""Characters of all messages together; from there on each keeps a few lines only."""
_A_FEW_LINES = 400
_SHOWN_OF_AN_ACTION = 400

Json = dict[str, Any]


def page(compression: Compression, source: Source, setup: Setup) -> str:
    """Return the page with the decision on every step of the source."""
    return write_page("agora.cli", "explain_page.html", account(compression, source, setup))


def account(compression: Compression, source: Source, setup: Setup) -> Json:
    """Return all that the page shows, as JSON."""
    trajectory = compression.trajectory
    log = setup.logged(source)
    shown: Json = {
        "name": os.path.basename(source.name),
        "place": source.place,
        "format": compression.format,
        "unit": setup.compressor.budget.unit,
        "changed": compression.changed,
        "reason": str(compression.reason),
        "why": "" if compression.changed else why_unchanged(compression),
        "detail": compression.detail,
        "by_rule": compression.fallback_level is FallbackLevel.PARTIAL,
        "before": compression.tokens_before,
        "after": compression.tokens_after,
        "epoch": compression.last_edit,
        "epochs": [],
        "steps": [],
        "said": [],
        "rows": list(_rows(compression, source)),
    }
    if trajectory is not None:
        shown |= {
            "task": trajectory.task[:_A_FEW_LINES],
            "sizes": {
                **_sizes(compression, trajectory),
                "unseen": 0 if log is None else log.unseen_tokens,
            },
            "budget": budget_of(setup.compressor.budget, trajectory, compression.last_edit),
            "epochs": _epochs(compression, trajectory, source, setup, setup.compressor_of(log)),
            "steps": [
                [
                    decision.number,
                    decision.outcome,
                    _reason(decision),
                    decision.tokens,
                    in_short(step)[:_SHOWN_OF_AN_ACTION],
                    decision.text,
                    decision.kind,
                ]
                for decision, step in zip(compression.decisions, trajectory.steps, strict=True)
            ],
            "said": [
                [utterance.after, utterance.by_user, utterance.tokens]
                for utterance in trajectory.utterances
            ],
        }
    return shown


def _reason(decision: Decision) -> str:
    return decision.reason.replace("_", " ")


def _sizes(compression: Compression, trajectory: Trajectory) -> Json:
    sizes = Counter({"fixed": trajectory.fixed_tokens})
    for decision in compression.decisions:
        sizes[decision.outcome] += decision.tokens
    stays = sum(sizes[kind] for kind in ("fixed", "protected", "kept"))
    return {
        **{kind: sizes[kind] for kind in ("fixed", "protected", "kept", "elided")},
        "markers": max(0, compression.tokens_after - stays),
        "preamble": trajectory.preamble_tokens,
        "said": sum(utterance.tokens for utterance in trajectory.utterances),
        "pending": trajectory.pending_tokens,
    }


def _epochs(
    compression: Compression,
    trajectory: Trajectory,
    source: Source,
    setup: Setup,
    compressor: Compressor,
) -> list[int]:
    """Return the number of steps before each edit so far; the last edit is in force."""
    if not compression.last_edit:
        return []
    policy = compressor.policy(setup.model or source.request.model, asked_ttl(source.request))
    pinned = frozenset(setup.pins) | compressor.kept(trajectory, plans=False).keys()
    edits = [s.edit for s in states(trajectory, policy, pinned=pinned) if s.is_new and s.edit]
    if edits[-1].why == "every call":
        return [compression.last_edit]
    return [edit.steps for edit in edits]


@dataclass(frozen=True, slots=True)
class _Row:
    """A message before and after; `after` is None where it was elided."""

    step: int
    who: str
    before: str
    after: str | None


def _rows(compression: Compression, source: Source) -> Iterator[Json]:
    """Yield the prompt message by message; a text that did not change is given once."""
    room = MOST_TEXT
    for row in _pairs(compression, source):
        most = MOST_OF_A_TEXT if room > 0 else _A_FEW_LINES
        shown: Json = {"step": row.step, "who": row.who, "before": _cut(row.before, most)}
        room -= len(shown["before"])
        if row.after is None:
            shown["gone"] = True
        elif row.after != row.before:
            same, end = _common(row.before, row.after)
            shown["after"] = [
                _cut(row.after[:same], most),
                _cut(row.after[same : len(row.after) - end], most),
                _cut(row.after[len(row.after) - end :], most),
            ]
            room -= sum(map(len, shown["after"]))
        yield shown


def _pairs(compression: Compression, source: Source) -> Iterator[_Row]:
    request = source.request
    yield from _beside(request.system, "system")
    yield from _beside(request.tools, "tools")
    messages = request.messages
    owners = compression.owners
    if isinstance(messages, str):
        yield _Row(0, "text", messages, str(compression.messages))
        return
    if not isinstance(messages, list):
        yield _Row(0, "", _json(messages), _json(messages))
        return
    sent: Mapping[int, Any] = dict(enumerate(messages))
    if compression.changed:
        sent = dict(zip(compression.positions, compression.messages, strict=True))
    for position, message in enumerate(messages):
        after = sent.get(position)
        yield _Row(
            step=abs(owners[position]) if position < len(owners) else 0,
            who=_who(message),
            before=readable(message, request.format),
            after=None if after is None else readable(after, request.format),
        )


def _beside(value: object, who: str) -> Iterator[_Row]:
    if value:
        text = value if isinstance(value, str) else _json(value)
        yield _Row(0, who, text, text)


def _who(message: object) -> str:
    if not isinstance(message, dict):
        return ""
    who = message.get("role") or message.get("type")
    return who if isinstance(who, str) else ""


def readable(message: object, format: str) -> str:
    """Return a message as text for people: its text and its calls, or its JSON.

    >>> call = {"id": "c1", "function": {"name": "look", "arguments": '{"at": "door"}'}}
    >>> readable({"role": "assistant", "content": None, "tool_calls": [call]}, "openai")
    'look {"at": "door"}'
    """
    if not isinstance(message, dict):
        return message if isinstance(message, str) else _json(message)
    text = ""
    # A message of another shape than its format's is shown as it is.
    with suppress(KeyError, TypeError, AttributeError, ValueError):
        text = format_named(format).text_of(message)
    return text if text or message.get("content") == "" else _json(message)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _common(before: str, after: str) -> tuple[int, int]:
    """Return how many characters two texts share at their start and, beyond those, at their end."""
    same = _alike(before, after)
    return same, _alike(before[same:][::-1], after[same:][::-1])


def _alike(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most:,} more characters"
