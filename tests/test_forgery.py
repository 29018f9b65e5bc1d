"""Nothing in an observation's text is read as state: a forged marker or role is plain text."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pytest

from agora import Budget, Compression, Compressor
from agora.core import Characters, Observations

# Private: every name that a marker may take from a result.
from agora.core.facts import facts_in
from agora.formats import Parsed, detect, make_request, parse
from agora.scorers import RecencyScorer
from harness.transcripts import quote as quote_block
from harness.transcripts import write
from tests.forgeries import forgeries

Message = dict[str, Any]

_COUNT = 10_000
_CI_SHARE = 10
"""CI takes one of so many; `just forge` takes them all."""
_STEPS = 6
_FORGED = (2, 4)
"""The steps whose observation is forged: one that is elided, and one that may be kept."""
_PLAIN = "The reservation is open and nothing about it has changed since it was made. "
_SHARED_KEY = re.compile(r"([A-Za-z_][\w.-]{0,39}=)([^,;= ]+),")
_KEYED_NUMBER = re.compile(r"(?:[A-Za-z_][\w-]{0,39}\.)?[A-Za-z_][\w-]{0,39}=-?[0-9.]+(?![\w-])")
_BY_US = re.compile(r"\b(?:ok|error|exit -?\d+)(?= |$)|\+\d+$|\b[A-Za-z_][\w-]{0,39}(?==)|[;=,\"]")
"""What a line says in our own words: how it went, how many were left out, which key."""
_OPENS_AN_ACTION = re.compile(r"^\[ASSISTANT\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Door:
    """A way in: how observations become a prompt in one format."""

    name: str
    format: str
    write: Callable[[list[str]], Any]
    thinking: bool | None = None
    observations: Observations | None = None
    quoted: Callable[[str], str] = str
    """What the door's own writer makes of an observation."""
    decidable: Callable[[str], bool] = lambda _: True


def _chat(texts: list[str]) -> list[Message]:
    messages: list[Message] = [{"role": "user", "content": "Rebook EHGLP3."}]
    for n, text in enumerate(texts, start=1):
        function = {"name": "get_page", "arguments": f'{{"page": {n}}}'}
        call = {"id": f"call{n:05d}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return messages


def _spoken(texts: list[str]) -> list[Message]:
    messages: list[Message] = [{"role": "user", "content": "Rebook EHGLP3."}]
    for n, text in enumerate(texts, start=1):
        messages.append({"role": "assistant", "content": f"look at page {n}"})
        messages.append({"role": "user", "content": text})
    return messages


def _responses(texts: list[str]) -> list[Message]:
    items: list[Message] = [{"role": "user", "content": "Rebook EHGLP3."}]
    for n, text in enumerate(texts, start=1):
        call_id = f"call{n:05d}"
        items.append(
            {"type": "function_call", "call_id": call_id, "name": "get_page", "arguments": "{}"}
        )
        items.append({"type": "function_call_output", "call_id": call_id, "output": text})
    return items


def _anthropic(texts: list[str], thinking: bool = False) -> list[Message]:
    messages: list[Message] = [{"role": "user", "content": "Rebook EHGLP3."}]
    for n, text in enumerate(texts, start=1):
        use = {"type": "tool_use", "id": f"call{n:05d}", "name": "get_page", "input": {"page": n}}
        thought = {"type": "thinking", "thinking": "Look.", "signature": f"s{n}"}
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": text}
        messages.append({"role": "assistant", "content": [thought, use] if thinking else [use]})
        messages.append({"role": "user", "content": [result]})
    return messages


def _gemini(texts: list[str]) -> list[Message]:
    contents: list[Message] = [{"role": "user", "parts": [{"text": "Rebook EHGLP3."}]}]
    for n, text in enumerate(texts, start=1):
        call = {"functionCall": {"name": "get_page", "args": {"page": n}}, "thoughtSignature": "s"}
        response = {"name": "get_page", "response": {"output": text}}
        contents.append({"role": "model", "parts": [call]})
        contents.append({"role": "user", "parts": [{"functionResponse": response}]})
    return contents


def _bedrock(texts: list[str], reasoning: bool = False) -> list[Message]:
    messages: list[Message] = [{"role": "user", "content": [{"text": "Rebook EHGLP3."}]}]
    for n, text in enumerate(texts, start=1):
        use = {"toolUseId": f"call{n:05d}", "name": "get_page", "input": {"page": n}}
        shown = {"text": "Look.", "signature": f"s{n}"}
        thought = {"reasoningContent": {"reasoningText": shown}}
        result = {"toolUseId": use["toolUseId"], "content": [{"text": text}]}
        acts: list[Message] = [thought] if reasoning else []
        messages.append({"role": "assistant", "content": [*acts, {"toolUse": use}]})
        messages.append({"role": "user", "content": [{"toolResult": result}]})
    return messages


def _transcript(texts: list[str]) -> str:
    steps = "".join(f"[ASSISTANT] look at {n}\n[USER] {text}\n" for n, text in enumerate(texts))
    return f"[SYSTEM] Be brief.\n[USER] Rebook EHGLP3.\n{steps}"


def _written_transcript(texts: list[str]) -> str:
    blocks = [("SYSTEM", "Be brief."), ("USER", "Rebook EHGLP3.")]
    for n, text in enumerate(texts):
        blocks += [("ASSISTANT", f"look at {n}"), ("USER", text)]
    return write(blocks)


def _as_written(text: str) -> str:
    return quote_block(text)


def _opens_no_action(text: str) -> bool:
    return not _OPENS_AN_ACTION.search(text)


DOORS = (
    Door("openai", "openai", _chat),
    Door("openai, acting by text", "openai", _spoken, observations="user"),
    Door("responses", "responses", _responses),
    Door("anthropic", "anthropic", _anthropic),
    Door("anthropic, thinking", "anthropic", lambda texts: _anthropic(texts, thinking=True)),
    Door("gemini", "gemini", _gemini),
    Door("bedrock", "bedrock", _bedrock),
    Door("bedrock, reasoning", "bedrock", lambda texts: _bedrock(texts, reasoning=True)),
    # A line that begins with an agent's own mark looks like the agent's: only `write` and
    # `quote` keep it apart.
    Door("transcript", "transcript", _transcript, decidable=_opens_no_action),
    Door("transcript, by write", "transcript", _written_transcript, quoted=_as_written),
)


@pytest.fixture(scope="module")
def forged() -> list[str]:
    found = forgeries(_COUNT)
    assert len(set(found)) == _COUNT
    return found


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_forged_observation_is_segmented_like_neutral_text_of_its_length(
    door: Door, forged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    _hold(door, forged[::_CI_SHARE], capsys)


@pytest.mark.long
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_all_ten_thousand_are_segmented_like_neutral_text_of_their_length(
    door: Door, forged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    _hold(door, forged, capsys)


def _hold(door: Door, forged: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    expected = lru_cache(maxsize=None)(lambda neutral: _account(door, neutral))
    held = 0
    for text in forged:
        if not door.decidable(text):
            continue

        assert _account(door, text) == expected(_neutral(door.quoted(text))), text
        held += 1

    with capsys.disabled():
        print(f"\n{door.name}: {held:,} of {len(forged):,} forgeries held")  # noqa: T201
    if door.decidable("[ASSISTANT]"):
        assert held == len(forged)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_forged_observation_puts_only_identifiers_into_markers(
    door: Door, forged: list[str]
) -> None:
    said = 0
    for text in forged[::_CI_SHARE]:
        if not door.decidable(text):
            continue
        compression = _compress(door, text)
        assert compression.trajectory is not None
        for decision in compression.decisions:
            if decision.form is None or not decision.text:
                continue
            said += 1
            step = compression.trajectory.steps[decision.number - 1]
            assert not any(mark in decision.text for mark in ("\n", "<|", "|>"))
            names = decision.form.result
            assert not any(mark in names for mark in ("\n", "[", "]", "<|", "|>"))
            # Facts of one key share it: `id=a,b` is `id=a` and `id=b`.
            while names != (apart := _SHARED_KEY.sub(r"\1\2 \1", names)):
                names = apart
            names = _KEYED_NUMBER.sub("", names)
            # A name may have spaces in it, so the names are taken away one by one.
            if names.strip('"') == step.observation.strip():
                continue
            found = {fact.text for fact in facts_in(step.observation)}
            # The words before a list's colon are the key of each thing in it.
            parts = [name.rpartition('"="') for name in found]
            assert all(len(thing.split()) <= 4 and len(key) <= 42 for key, _, thing in parts)
            for name in sorted(found, key=len, reverse=True):
                names = names.replace(name, "")
            assert not _BY_US.sub("", names).strip(), (decision.text, text)

    assert said


def test_a_forged_role_mark_does_not_change_which_format_a_text_is_taken_for(
    forged: list[str],
) -> None:
    for door in DOORS:
        if door.observations is None:
            for text in forged[:500]:
                assert detect(door.write(_texts(text))) == door.format, text


def _neutral(text: str) -> str:
    """Return text that says nothing, as long as `text` and with the same blanks at its end."""
    said = len(text.rstrip())
    return "x" * said + text[said:]


def _texts(text: str) -> list[str]:
    plain = [_PLAIN * (2 + n % 3) for n in range(_STEPS)]
    for number in _FORGED:
        plain[number - 1] = text
    return plain


def _account(door: Door, text: str) -> Any:
    """Return everything about a prompt that may not depend on what a text says."""
    parsed = _parse(door, text)
    steps = [
        (step.number, step.tokens, step.removable, step.residue_tokens, step.fixed, len(step.calls))
        for step in parsed.trajectory.steps
    ]
    said = [(said.after, said.tokens, said.by_user) for said in parsed.trajectory.utterances]
    fixed = (parsed.trajectory.preamble_tokens, parsed.trajectory.pending_tokens)
    return (
        tuple(parsed.step_of_message),
        tuple(parsed.spans),
        steps,
        said,
        fixed,
    )


def _parse(door: Door, text: str) -> Parsed:
    request = make_request(
        door.write(_texts(text)), format=door.format, observations=door.observations
    )
    return parse(request, Characters())


def _compress(door: Door, text: str) -> Compression:
    # Characters and recency: only structure is left to make a difference.
    compressor = Compressor(
        scorer=RecencyScorer(),
        budget=Budget(keep_ratio=0.6, min_ratio=0.0, unit="characters"),
        k_recent=1,
        edits="every_call",
        strict=True,
    )
    return compressor.compress(
        door.write(_texts(text)), format=door.format, observations=door.observations
    )
