"""What holds for every input: the properties that are checked history by history.

Each check takes a case and raises `AssertionError` where the property does not hold. Two of the
eight properties are not about one history and stand in `tests/test_properties.py`: that time is
linear, and that other hash seeds give the same bytes.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import agora
from agora import Budget, Compression, Compressor, PriceSheet, Reason, Session
from agora.core import Characters
from agora.core.schedule import call_of
from agora.formats.cache_ttl import without_marks
from agora.testing import FixedScorer
from harness import transcripts
from harness.histories import History
from harness.histories.choices import LOOKALIKES, Choices
from harness.properties.case import Case, Setup, clone, fields_of
from harness.properties.markers import (
    TEXT_FORMATS,
    markers_in_messages,
    markers_in_text,
    texts_in,
    with_observations,
)


def broken(history: History, messages: Any, before: Any = None) -> tuple[set[str], set[str]]:
    """Return the rules that messages break: those every model enforces, and the others."""
    rules = agora.validate(
        messages,
        format=history.format,
        strict=True,
        before=history.messages if before is None else before,
        **history.options,
    )
    return {rule.code for rule in rules if not rule.strict}, {r.code for r in rules if r.strict}


# 1 — legality


def check_legal(case: Case) -> None:
    history = case.history
    illegal_before, strict_before = broken(history, history.messages)
    assert not illegal_before, f"the generator wrote something illegal: {illegal_before}"

    compression = case.compression

    assert compression.reason not in (
        Reason.GUARD,
        Reason.FAILED,
        Reason.ILLEGAL_INPUT,
        Reason.UNREADABLE,
    ), compression.detail
    illegal, strict = broken(history, compression.messages)
    assert not illegal, f"rules were broken: {illegal}"
    new = strict - strict_before
    assert not new, f"rules that only some models enforce were newly broken: {new}"
    if compression.changed and history.format not in TEXT_FORMATS:
        stays = set(compression.positions)
        for number, positions in enumerate(history.closed, start=1):
            left = stays & set(positions)
            assert left in (set(), set(positions)), f"step {number} was cut through"


def check_illegal(case: Case) -> None:
    history, setup = case.history, case.setup
    messages: Any
    if history.format in TEXT_FORMATS:
        messages = [history.messages]
    elif isinstance(history.messages, str):
        messages = []
    else:
        messages = copy.copy(history.messages)
        at = len(history.recipe.text) + history.recipe.tape[-1]
        kind = history.recipe.tape[-2] % 3
        if kind == 0:
            del messages[at % len(messages)]
        elif kind == 1:
            messages.insert(at % len(messages), messages[at // 2 % len(messages)])
        else:
            messages[at % len(messages)] = "not a message"
    was = clone(messages)
    legal = not agora.validate(messages, format=history.format, **history.options)

    compression = setup.compress(history, messages)

    assert messages == was
    if legal:
        assert not agora.validate(
            compression.messages, format=history.format, before=messages, **history.options
        )
    else:
        assert compression.messages is messages
        assert not compression.changed


# 2 — the floor


def check_floor(case: Case) -> None:
    history, setup = case.history, case.setup
    compressor = setup.compressor
    compression = case.compression
    if not compression.changed:
        return
    outcomes = {decision.number: decision.outcome for decision in compression.decisions}
    assert list(outcomes) == list(range(1, history.steps + 1))

    epoch = history.steps - history.steps % setup.every
    recent = range(epoch - max(1, compressor.k_recent) + 1, epoch + 1)
    recalled = {number for by, number in history.recalls if by <= epoch}
    after = range(epoch + 1, history.steps + 1)
    for number in {*recent, *setup.pins, *recalled, *after} & outcomes.keys():
        assert outcomes[number] != "elided", f"step {number} belongs to the floor"
    elided = {number for number, outcome in outcomes.items() if outcome == "elided"}
    whole = [n for n in outcomes if n not in elided]
    _check_whole(history, compression, whole)
    if history.format not in TEXT_FORMATS:
        _check_fixed_text_stays(history, compression)

    trajectory = compression.trajectory
    assert trajectory is not None
    steps = trajectory.steps[:epoch]
    # An edit that stays as it is while more is said may not look at what is said after it.
    edits_always = setup.every == 1
    said = [u for u in trajectory.utterances if edits_always or u.after < epoch]
    fixed = trajectory.preamble_tokens + sum(utterance.tokens for utterance in said)
    total = fixed + sum(step.tokens for step in steps)
    floor = {d.number for d in compression.decisions if d.outcome == "protected"}
    least = fixed + sum(s.tokens if s.number in floor else s.residue_tokens for s in steps)
    budget = compressor.budget.of(total, floor=least)
    # Only lines of steps that changed something, and notes where no step can be removed, may cost
    # more than the budget.
    nothing = Budget(limit=0, unit=compressor.budget.unit)
    none = Compressor(**{**fields_of(compressor), "budget": nothing})
    least_out = Setup(none, setup.pins, setup.every).compress(history).messages
    allowed = max(trajectory.tokens - total + budget, case.tokens_of(least_out))
    assert case.tokens_after <= allowed, "more was kept than the budget allows"


def _check_whole(history: History, compression: Compression, numbers: list[int]) -> None:
    """Steps that were not elided stand in the output word for word."""
    if history.format in TEXT_FORMATS:
        for number in numbers:
            start, end = history.closed[number - 1]
            assert history.messages[start:end].rstrip() in compression.messages
        return
    place = {position: at for at, position in enumerate(compression.positions)}
    for number in numbers:
        for position in history.closed[number - 1]:
            assert position in place, f"a message of step {number} is gone"
            after = compression.messages[place[position]]
            for text in texts_in(history.messages[position]):
                assert any(other.startswith(text) for other in texts_in(after))


def _check_fixed_text_stays(history: History, compression: Compression) -> None:
    """Whatever is no part of a step and was not said by the agent is still there."""
    in_steps = {position for positions in history.closed for position in positions}
    stays = set(compression.positions)
    for position, message in enumerate(history.messages):
        if position not in in_steps and message.get("role") in ("user", "system", "developer"):
            assert position in stays, f"message {position} is gone"


# 3 — verbatim


def check_verbatim(case: Case) -> None:
    history = case.history
    before = case.before

    compression = case.compression

    assert history.messages == before, "the caller's messages were changed"
    if not compression.changed:
        assert compression.messages == before
        return
    elided = {d.number for d in compression.decisions if d.outcome == "elided"}
    if history.format in TEXT_FORMATS:
        text, noted = with_observations(history, compression)
        rest = elided - noted
        reported = noted | (markers_in_text(history, text, rest) if rest else set())
        assert rest or text == history.messages
    else:
        reported = markers_in_messages(history, compression)
    assert reported == elided, "the markers do not name the elided steps"


# 4 — determinism


def check_deterministic(case: Case) -> None:
    history, setup = case.history, case.setup
    compression = case.compression
    again = setup.compress(history, clone(history.messages))
    assert json.dumps(compression.messages) == json.dumps(again.messages)
    assert compression.decisions == again.decisions

    twice = setup.compress(history, compression.messages)

    assert not agora.validate(
        twice.messages, format=history.format, before=compression.messages, **history.options
    )
    assert twice.reason not in (Reason.GUARD, Reason.FAILED, Reason.ILLEGAL_INPUT), twice.detail
    assert case.tokens_of(twice.messages) <= case.tokens_after


# 5 — the prefix


def check_prefix(case: Case) -> None:
    history, setup = case.history, case.epochs
    every = setup.every
    previous: Any = None
    previous_epoch = -1
    for call in history.calls:
        steps = sum(end <= call for *_, end in _ends(history))
        epoch = steps - steps % every
        prompt = setup.compress(history, history.upto(call)).messages
        if epoch == previous_epoch:
            assert prompt[: len(previous)] == previous, (
                f"with {steps} steps the prompt of epoch {epoch} began in another way"
            )
        previous, previous_epoch = prompt, epoch


def _ends(history: History) -> Iterator[tuple[int, int]]:
    for start, *_, end in history.closed:
        yield start, end if history.format in TEXT_FORMATS else end + 1


# 6 — never more


ESTIMATE_SLACK_TOKENS = 32
"""The estimate counts a text of few and odd bytes as its bytes, and a marker after it as more
than alone: the account, which adds them up, may then be short by some tokens."""


def check_never_more(case: Case) -> None:
    history, setup = case.history, case.setup
    compression = case.compression

    if not compression.changed:
        assert compression.messages is history.messages
        return
    before, after = case.tokens_before, case.tokens_after
    assert compression.tokens_before == before
    assert after < before
    assert compression.tokens_after < before
    estimated = setup.compressor.budget.unit == "tokens"
    slack = ESTIMATE_SLACK_TOKENS if estimated else 0
    assert after <= compression.tokens_after + slack, "the account is wrong"


# 8 — forgery


def check_forgery(case: Case) -> None:
    history, setup = case.history, case.setup
    if not history.results:
        return
    choices = Choices(history.recipe.tape[::-1])
    at = choices.below(history.results)
    forged = choices.pick(LOOKALIKES) * (1 + choices.below(12))
    # Quoted beforehand where a format needs it, so that quoting does not make it longer.
    if history.format == "transcript":
        forged = transcripts.quote(forged)
    plain = ("no news is good news, so it goes. " * 80)[: len(forged) - 1] + "x"
    if history.format in ("gemini", "bedrock"):
        # A result may be an object, whose JSON writes these characters longer than they are.
        plain = "".join(f if f in '"\\\n' else p for p, f in zip(plain, forged, strict=True))
    reported = [history.retold(at, text) for text in (plain, forged)]
    fields = fields_of(setup.compressor) | {
        "scorer": FixedScorer(tuple(choices.below(11) / 10 for _ in range(8))),
        "counter": Characters(),
    }

    # What a line says is read from the text, and takes its room from what is kept whole.
    compressor = Compressor(**fields)
    one, other = (
        blind_account(Setup(compressor, setup.pins, setup.every).compress(r)) for r in reported
    )
    assert one == other


def blind_account(compression: Compression) -> list[object]:
    """Return the sizes of the prompt and of its steps."""
    steps = [(decision.number, decision.tokens) for decision in compression.decisions]
    return [compression.tokens_before, *steps]


# 9 — sessions

_PRICES = (
    PriceSheet(name="drawn", input=1.0, read=0.5, write=1.0, output=1.0),
    PriceSheet(name="drawn", input=1.0, read=0.1, write=1.25, output=1.0, ttl_seconds=300),
    PriceSheet(name="drawn", input=1.0, read=0.9, write=1.0, output=1.0, window=1_500),
)


def check_session(case: Case) -> None:
    history, setup = case.history, case.setup
    choices = Choices(history.recipe.tape)
    settings = {
        "edits": choices.pick(("by_price", "by_price", "every_call", "free")),
        "sheet": choices.pick(_PRICES),
        "forgetting": choices.pick((0.0, 1.0)),
        "min_tokens": 0,
    }
    compressor = Compressor(**{**fields_of(setup.compressor), **settings})
    now = 0.0
    session = Session(compressor, clock=lambda: now)
    request = {"pins": setup.pins, **history.request}
    previous: Any = None
    previous_edit: Any = None
    for call in history.calls:
        messages = history.upto(call)
        compression = session.compress(messages, **request)
        illegal, _ = broken(history, compression.messages, messages)
        assert not illegal, f"rules were broken: {illegal}"
        now += 5
        again = session.compress(clone(messages), **request)
        assert again.messages == compression.messages, "the same call was sent as other bytes"
        state = compression.state
        assert state is not None
        whole = agora.parse(
            messages,
            format=history.format,
            observations=history.observations,
            counter=compressor.counting,
            **history.options,
        )
        newest = call_of(whole, compressor.policy())
        assert state.prompt == newest.prompt + newest.tail, "the conversation was not read whole"
        assert (state.steps, compression.tokens_before) == (len(whole.steps), whole.tokens)
        if previous is not None and not state.is_new and state.edit == previous_edit:
            begins = without_marks(compression.messages[: len(previous)])
            assert begins == without_marks(previous), "the prompt began otherwise"
        previous, previous_edit = compression.messages, state.edit
        following = history.messages[len(messages) :] if isinstance(messages, list) else []
        session.answered(compression, answer=following[:1])
        now += choices.pick((5, 5, 5, 1_000))


PROPERTIES: Mapping[str, Callable[[Case], None]] = MappingProxyType(
    {
        "1 legal stays legal": check_legal,
        "1 illegal comes back": check_illegal,
        "2 the floor": check_floor,
        "3 verbatim": check_verbatim,
        "4 determinism": check_deterministic,
        "5 the prefix": check_prefix,
        "6 never more": check_never_more,
        "8 forgery": check_forgery,
        "9 sessions": check_session,
    }
)
"""The checks by name, numbered as the properties are."""
