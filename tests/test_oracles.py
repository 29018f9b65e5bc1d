"""Other people's judges: what they accept before compression they accept after it."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import (
    MistralRequestValidator,
    MistralRequestValidatorV3,
    MistralRequestValidatorV5,
    MistralRequestValidatorV11,
    MistralRequestValidatorV13,
    MistralRequestValidatorV15,
    ValidationMode,
)

from agora import Budget, Compressor
from agora.core import Observations
from agora.scorers import RecencyScorer
from tests.chat_templates import FORMS, TemplatesMissingError, load, refusal
from tests.histories_exhaustive import CHAT, call_id, histories, observation

Message = dict[str, Any]

_TOOLS: list[Message] = [
    {
        "type": "function",
        "function": {
            "name": "get_reservation",
            "description": "Shows a reservation.",
            "parameters": {
                "type": "object",
                "properties": {
                    "reservation": {"type": "string", "description": "Its code."},
                    "page": {"type": "integer", "description": "Which page."},
                },
                "required": ["reservation"],
            },
        },
    }
]
_VALIDATORS: dict[str, Any] = {
    f"{kind.__name__}, {mode}": kind(mode)
    for kind in (
        MistralRequestValidator,
        MistralRequestValidatorV3,
        MistralRequestValidatorV5,
        MistralRequestValidatorV11,
        MistralRequestValidatorV13,
        MistralRequestValidatorV15,
    )
    for mode in (ValidationMode.test, ValidationMode.serving)
}
_LONGER = 120
"""How many longer histories are drawn besides the enumerated ones."""


@dataclass(frozen=True, slots=True)
class Case:
    """A history, and every different way it came out compressed."""

    messages: list[Message]
    outputs: tuple[list[Message], ...]


def test_mistral_accepts_after_compression_what_it_accepted_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    accepted: Counter[str] = Counter()
    judged = 0
    for case in _cases():
        for name, validator in _VALIDATORS.items():
            if _mistral_refusal(validator, case.messages):
                continue
            accepted[name] += 1
            for output in case.outputs:
                judged += 1
                assert not _mistral_refusal(validator, output), (name, case.messages, output)

    with capsys.disabled():
        print(  # noqa: T201
            f"\nmistral-common: {len(_VALIDATORS)} validators, {len(_cases())} histories, "
            f"{sum(accepted.values()):,} pairs accepted in, {judged:,} outputs judged, 0 refused"
        )
    assert all(accepted[name] for name in _VALIDATORS)


def test_mistral_would_see_a_dropped_result() -> None:
    history = CHAT.write("UCRCR")
    assert history is not None
    validator = _VALIDATORS["MistralRequestValidatorV3, serving"]

    assert not _mistral_refusal(validator, history.messages)
    assert _mistral_refusal(validator, history.messages[:2] + history.messages[3:])


def test_every_template_that_accepts_a_history_accepts_it_compressed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    templates = _templates()
    pairs = judged = 0
    accepting: set[str] = set()
    for case in _cases():
        for name, render in templates.items():
            for form in FORMS:
                if refusal(render, case.messages, form, _TOOLS):
                    continue
                accepting.add(name)
                pairs += 1
                for output in case.outputs:
                    judged += 1
                    refused = refusal(render, output, form, _TOOLS)
                    assert not refused, (name, form, refused, case.messages, output)

    with capsys.disabled():
        print(  # noqa: T201
            f"\n{len(accepting)} of {len(templates)} templates, {len(_cases())} histories: "
            f"{pairs:,} (template, form, history) accepted in, {judged:,} outputs judged, 0 refused"
        )
    assert len(accepting) >= 0.9 * len(templates)


def test_templates_would_see_careless_edits(capsys: pytest.CaptureFixture[str]) -> None:
    templates = _templates()
    history = CHAT.write("SUCRCRCR")
    assert history is not None
    messages = history.messages
    marker = "[steps 1-1 elided]"
    edits = {
        "marker as an extra user message": [
            *messages[:2],
            {"role": "user", "content": marker},
            *messages[4:],
        ],
        "marker as an extra system message": [
            *messages[:2],
            {"role": "system", "content": marker},
            *messages[4:],
        ],
        "call dropped, result kept": [*messages[:2], *messages[3:]],
        "user task dropped": [messages[0], *messages[2:]],
    }

    refused = {
        edit: sum(_refuses_now(render, messages, edited) for render in templates.values())
        for edit, edited in edits.items()
    }

    with capsys.disabled():
        print(f"\ntemplates that refuse: {refused}")  # noqa: T201
    assert all(refused.values())


def _refuses_now(render: Any, messages: list[Message], edited: list[Message]) -> bool:
    return any(
        not refusal(render, messages, form, _TOOLS) and bool(refusal(render, edited, form, _TOOLS))
        for form in FORMS
    )


@cache
def _templates() -> dict[str, Any]:
    try:
        return dict(load())
    except TemplatesMissingError as error:
        pytest.skip(f"no chat templates to judge by: {error}")


def _mistral_refusal(validator: Any, messages: list[Message]) -> str:
    readable = [
        {key: value for key, value in message.items() if key != "reasoning_content"}
        for message in messages
    ]
    try:
        request = ChatCompletionRequest.from_openai(readable, tools=_TOOLS, model="any")
        validator.validate_request(request)
    except (MistralCommonException, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


@cache
def _cases() -> tuple[Case, ...]:
    """Return histories of every short shape, and longer ones, each with its compressions."""
    cases = []
    for messages, observations in _histories():
        outputs = _compressed(messages, observations)
        if outputs:
            cases.append(Case(messages, outputs))
    return tuple(cases)


def _histories() -> Iterator[tuple[list[Message], Observations | None]]:
    for history in histories(CHAT, 5):
        followed = CHAT.write(history.word + "CR")
        if followed is not None and not followed.broken():
            yield followed.messages, None
    chance = random.Random(7)
    for _ in range(_LONGER):
        yield _longer(chance), None
    for length in range(3, 9):
        yield list(_spoken(length)), "user"


def _compressed(
    messages: list[Message], observations: Observations | None
) -> tuple[list[Message], ...]:
    outputs: list[list[Message]] = []
    for keep_ratio in (0.0, 0.5):
        compressor = Compressor(
            scorer=RecencyScorer(),
            budget=Budget(keep_ratio=keep_ratio),
            k_recent=1,
            edits="every_call",
            strict=True,
        )
        compression = compressor.compress(
            messages, format="openai", tools=_TOOLS, observations=observations
        )
        if compression.changed and compression.messages not in outputs:
            outputs.append(compression.messages)
    return tuple(outputs)


def _longer(chance: random.Random) -> list[Message]:
    """Draw a history richer than the enumerated ones: parts, both text and calls, many steps."""
    messages: list[Message] = []
    if chance.random() < 0.7:
        messages.append({"role": "system", "content": "Be brief."})
    messages.append({"role": "user", "content": _content(chance, "Please rebook EHGLP3.")})
    made = 0
    parallel = chance.random() < 0.4
    for _ in range(chance.randint(2, 8)):
        kind = chance.random()
        if kind < 0.15:
            messages.append({"role": "assistant", "content": "It is open. Shall I go on?"})
            messages.append({"role": "user", "content": _content(chance, "Yes, go on.")})
        elif kind < 0.2 and messages[-1]["role"] == "tool":
            messages.append({"role": "user", "content": "Hurry."})
        count = chance.randint(1, 3) if parallel else 1
        numbers = [made + 1 + i for i in range(count)]
        made += count
        messages += _step(chance, numbers)
    return messages


def _step(chance: random.Random, numbers: Sequence[int]) -> list[Message]:
    calls = [
        {
            "id": call_id(number),
            "type": "function",
            "function": {
                "name": "get_reservation",
                "arguments": f'{{"reservation": "EHG{number}P3", "page": {number}}}',
            },
        }
        for number in numbers
    ]
    action: Message = {"role": "assistant", "content": None, "tool_calls": calls}
    if chance.random() < 0.3:
        action["content"] = "Let me look."
    if chance.random() < 0.2:
        action["reasoning_content"] = "The booking has to be read first."
    results = [
        {
            "role": "tool",
            "tool_call_id": call_id(number),
            "name": "get_reservation",
            "content": _content(chance, observation(number)),
        }
        for number in chance.sample(numbers, len(numbers))
    ]
    return [action, *results]


def _content(chance: random.Random, text: str) -> str | list[Message]:
    return [{"type": "text", "text": text}] if chance.random() < 0.1 else text


def _spoken(length: int) -> Iterator[Message]:
    """Yield the chat of an agent that acts by text."""
    yield {"role": "user", "content": "Find the key."}
    for number in range(1, length + 1):
        yield {"role": "assistant", "content": f"open box {number}"}
        yield {"role": "user", "content": observation(number)}
