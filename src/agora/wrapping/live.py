"""What AGORA assumes of models that bind thinking, asked of a live account in a few short calls.

A made-up conversation is played until the model has thought twice. Then it is sent again in
variants, each of which answers one question. Every call carries the beta by which the provider
reports what became of the thinking; by its documentation that changes nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import agora
from agora.adapters.thoughts import thinks, without_thinking
from agora.core.binding import FailedCheck, binding_of, shipped_bindings
from agora.wrapping.capped import (
    Account,
    Answer,
    CannotAskError,
    Capped,
    Message,
    StoppedError,
    account_of,
)

Expected = Literal["kept", "failed", "dropped"]
"""`kept`: accepted, and no thinking lost. `failed`: what the model does where a check fails.
`dropped`: accepted, and the thinking that does not hold is listed as dropped."""
Outcome = Literal["kept", "dropped", "others", "recorded", "refused", "refused otherwise", "untold"]
State = Literal["as assumed", "differs", "open"]

BETA = "thinking-binding-controls-2026-08-01"
BOUND_RULE = "A22"
ENFORCED_SINCE = "2026-08-31"
"""On accounts from before, a failed check is only recorded if the request does not ask for more."""
PLAYED_CALLS = 4
_THOUGHTS = 2
_LONG_TOKENS = 2_000
"""What an answer may have that is gone on from: room for thinking and a call."""
_SHORT_TOKENS = 32
"""What an answer may have of which only the status is read."""


@dataclass(frozen=True, slots=True)
class Question:
    """Something that only a live account can tell."""

    number: int
    asks: str
    expects: Expected
    matters: str
    """What it would mean if the answer were another."""
    sends_thinking: bool = True


QUESTIONS = (
    Question(
        1,
        "The history, unchanged",
        "kept",
        "Thinking would be lost without any edit: read the other answers with care.",
    ),
    Question(
        2,
        "The history without thinking",
        "kept",
        "AGORA sends this after every edit and in answer to a refusal: please report it.",
        sends_thinking=False,
    ),
    Question(
        3,
        "Without thinking and without the first step",
        "kept",
        "AGORA removes steps on these models: it would have to mask them. Please report it.",
        sends_thinking=False,
    ),
    Question(
        4,
        "A result changed, the thinking behind it kept",
        "failed",
        "This is what your account does where thinking no longer holds. AGORA takes such thinking "
        "out, so it sends nothing that this would change.",
    ),
    Question(
        5,
        "cache_control on another message",
        "kept",
        "AGORA moves cache marks with its edits and takes them not to count: please report it.",
    ),
    Question(
        6,
        "Older thinking again, after a call without it",
        "failed",
        "AGORA never sends this, so nothing breaks; were it accepted, AGORA could keep more "
        "thinking.",
    ),
    Question(
        7,
        'As 4, with "drop_block"',
        "dropped",
        "The gateway may ask for this where it cannot know what holds: please report it.",
    ),
    Question(
        8,
        "As 3, going on with the thinking that 3 gave",
        "kept",
        "AGORA keeps thinking that is newer than its edit: please report it.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A question with what AGORA assumes and what was seen."""

    number: int
    question: str
    assumed: str
    or_older: str
    """What is assumed of accounts from before the check was enforced, if it is something else."""
    seen: str
    state: State
    matters: str = ""
    """What a difference would mean; empty where there is none."""
    status: int = 0
    rule: str = ""
    said: str = ""
    """The provider's words where it refused."""
    transformations: tuple[Mapping[str, str], ...] | None = None
    """What the provider reports to have done with thinking; None if it does not report."""
    input_tokens: int | None = None
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All answers, and what they cost. Holds neither the key nor whose account it was."""

    agora: str
    at: str
    model: str
    base_url: str
    assumed_failed_check: FailedCheck
    answers: tuple[Answered, ...]
    stopped: str
    """Why not all could be asked; empty if all were."""
    calls: int
    cents: float
    """By the usage that the provider reported, at list prices; at worst where it reported none."""
    max_cents: float
    played_request_ids: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 if all is as assumed, 1 if something differs, 2 if something could not be asked."""
        states = {one.state for one in self.answers}
        return 1 if "differs" in states else 2 if "open" in states else 0


def live_account(key: str, *, model: str, base_url: str, max_cents: float) -> Account:
    """Return the account to ask.

    Raises:
        CannotAskError: the key, the model or the address cannot be used. The key is not in it.
    """
    if binding_of(model) is None:
        known = ", ".join(shipped_bindings())
        raise CannotAskError(
            f"{model} is not known to bind thinking, so there is nothing to ask; these are: {known}"
        )
    return account_of(key, model=model, base_url=base_url, max_cents=max_cents)


def ask(account: Account) -> Report:
    """Play a conversation, ask every question, and return what was answered until it stopped."""
    line = Capped(account, BETA)
    failed_check = _failed_check(account.model)
    answers = {one.number: _open(one, failed_check, "not asked") for one in QUESTIONS}
    played: list[str] = []
    stopped = ""
    try:
        past = _played(line)
        played = line.request_ids[:]
        for one in _asked(line, past, failed_check):
            answers[one.number] = one
    except StoppedError as why:
        stopped = str(why)
    return Report(
        agora=agora.__version__,
        at=datetime.now(tz=UTC).isoformat(timespec="seconds"),
        model=account.model,
        base_url=account.base_url,
        assumed_failed_check=failed_check,
        answers=tuple(answers.values()),
        stopped=stopped,
        calls=line.calls,
        cents=round(line.cents, 4),
        max_cents=account.max_cents,
        played_request_ids=tuple(played or line.request_ids),
    )


def _failed_check(model: str) -> FailedCheck:
    """Return what AGORA takes a failed check to do on this model."""
    binding = binding_of(model)
    return binding.failed_check if binding else "record"


# --- the conversation

_SYSTEM = (
    "You solve puzzles with the tools. Make one tool call at a time, and before each of them think "
    "about what the last result rules out."
)
_TASK = (
    "Crates A to F hold some balls each, at most 20. In one crate every ball weighs 11 grams, in "
    "the others 10. Count a crate before you weigh balls from it. Which crate is it? Use as few "
    "weighings as you can; a weighing may mix balls of several crates."
)
_MORE = "Now suppose that the scale shows up to 2 grams too much. Check your answer with the tools."
_TOOLS = (
    {
        "name": "count",
        "description": "Returns how many balls a crate holds.",
        "input_schema": {
            "type": "object",
            "properties": {"crate": {"type": "string"}},
            "required": ["crate"],
        },
    },
    {
        "name": "weigh",
        "description": "Returns what balls weigh together. Takes the number of balls per crate.",
        "input_schema": {
            "type": "object",
            "properties": {"balls": {"type": "object"}},
            "required": ["balls"],
        },
    },
)
_HEAVY = "D"
_MOST_BALLS = 20
_MARK = {"cache_control": {"type": "ephemeral"}}


def _played(line: Capped) -> list[Message]:
    """Return a conversation in which the model thought twice, ready to be sent again."""
    past: list[Message] = [{"role": "user", "content": [{"type": "text", "text": _TASK, **_MARK}]}]
    for _ in range(PLAYED_CALLS):
        answer = line.send(_request(past, _LONG_TOKENS))
        if answer.status != 200:
            raise StoppedError(f"the made-up conversation itself was refused: {answer.said}")
        if not answer.is_whole:
            raise StoppedError(f"an answer was cut off or empty, within {_LONG_TOKENS:,} tokens")
        past += _went_on(answer)
        if sum(map(thinks, past)) == _THOUGHTS:
            return past
    thought = sum(map(thinks, past))
    raise StoppedError(
        f"the model thought in {thought} of {PLAYED_CALLS} answers; {_THOUGHTS} are needed, so all "
        "questions stay open"
    )


def _request(past: Sequence[Message], max_tokens: int = _SHORT_TOKENS) -> Message:
    return {
        "max_tokens": max_tokens,
        "thinking": {"type": "adaptive"},
        "system": _SYSTEM,
        "tools": _TOOLS,
        "messages": past,
    }


def _went_on(answer: Answer) -> list[Message]:
    """Return an answer's message as it came, and the reply to it."""
    reply: list[Message] = [
        {"type": "tool_result", "tool_use_id": block.get("id"), "content": _result(block)}
        for block in answer.blocks
        if block.get("type") == "tool_use"
    ]
    return [
        {"role": "assistant", "content": answer.body["content"]},
        {"role": "user", "content": reply or [{"type": "text", "text": _MORE}]},
    ]


def _result(use: Message) -> str:
    """Return what a tool gives, made up here. The model may ask for anything."""
    given = use.get("input")
    given = given if isinstance(given, dict) else {}
    if use.get("name") == "count":
        crate = str(given.get("crate", ""))[:1].upper()
        return f"{12 + ord(crate) % 7} balls" if crate and crate in "ABCDEF" else "no such crate"
    balls = given.get("balls")
    numbers = balls if isinstance(balls, dict) else {}
    grams = sum(
        number * (11 if crate == _HEAVY else 10)
        for crate, number in numbers.items()
        if isinstance(number, int) and 0 <= number <= _MOST_BALLS
    )
    return f"{grams} grams"


# --- the questions


def _asked(line: Capped, past: Sequence[Message], failed_check: FailedCheck) -> Iterator[Answered]:
    """Yield an answer to each question, in order."""
    newest = max(at for at, message in enumerate(past) if thinks(message))
    bare = without_thinking(past).messages
    # A step is what the model said and what came back.
    shorter = without_thinking([past[0], *past[3:]]).messages
    altered = _request(_altered(past, newest - 1))
    drop = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}

    def judged(number: int, answer: Answer, block_in: int | None = None) -> Answered:
        return _judged(QUESTIONS[number - 1], failed_check, answer, block_in)

    def going_on(number: int, before: Sequence[Message], answer: Answer) -> Answered:
        if answer.status != 200 or not answer.is_whole or not thinks(answer.body):
            seen = "not asked: no thinking to go on from"
            return _open(QUESTIONS[number - 1], failed_check, seen)
        return judged(number, line.send(_request([*before, *_went_on(answer)])))

    yield judged(1, line.send(_request(past)))
    after_bare = line.send(_request(bare, _LONG_TOKENS))
    yield judged(2, after_bare)
    after_edit = line.send(_request(shorter, _LONG_TOKENS))
    yield judged(3, after_edit)
    yield judged(4, line.send(altered), newest)
    yield judged(5, line.send(_request(_marked(past, newest - 1))))
    yield going_on(6, past, after_bare)
    yield judged(7, line.send({**altered, "thinking": drop}), newest)
    yield going_on(8, shorter, after_edit)


def _altered(past: Sequence[Message], at: int) -> list[Message]:
    """Return the conversation with other words in the last block of message `at`."""
    *blocks, last = past[at]["content"]
    name = "content" if last["type"] == "tool_result" else "text"
    changed = {**last, name: "[elided]"}
    return [*past[:at], {**past[at], "content": [*blocks, changed]}, *past[at + 1 :]]


def _marked(past: Sequence[Message], at: int) -> list[Message]:
    """Return the conversation with its cache mark on message `at` instead of the first."""
    text = {"type": "text", "text": _TASK}
    *blocks, last = past[at]["content"]
    marked = {**past[at], "content": [*blocks, {**last, **_MARK}]}
    return [{**past[0], "content": [text]}, *past[1:at], marked, *past[at + 1 :]]


def _judged(
    question: Question, failed_check: FailedCheck, answer: Answer, block_in: int | None
) -> Answered:
    """Return the answer to a question; `block_in` is the message whose thinking cannot hold."""
    outcome = _outcome(answer, block_in)
    fits = outcome in _expected(question, failed_check)
    state: State = "open" if outcome == "untold" else "as assumed" if fits else "differs"
    return Answered(
        number=question.number,
        question=question.asks,
        assumed=_assumed(question, failed_check),
        or_older=_or_older(question, failed_check),
        seen=_seen(answer, outcome),
        state=state,
        matters=question.matters if state == "differs" else "",
        status=answer.status,
        rule=answer.rule,
        said=answer.said,
        transformations=answer.transformations,
        input_tokens=answer.usage.get("input_tokens"),
        request_id=answer.request_id,
    )


def _open(question: Question, failed_check: FailedCheck, seen: str) -> Answered:
    return Answered(
        number=question.number,
        question=question.asks,
        assumed=_assumed(question, failed_check),
        or_older=_or_older(question, failed_check),
        seen=seen,
        state="open",
    )


def _outcome(answer: Answer, block_in: int | None) -> Outcome:
    """Return what became of the thinking in a request."""
    if answer.status != 200:
        return "refused" if answer.rule == BOUND_RULE else "refused otherwise"
    if not answer.sent_thinking:
        return "kept"
    if answer.transformations is None:
        return "untold"
    dropped = _places(answer, "thinking_dropped")
    if not dropped:
        return "recorded" if _places(answer, "thinking_mismatch_allowed") else "kept"
    if block_in is None or all(p.startswith(f"messages.{block_in}.") for p in dropped):
        return "dropped"
    return "others"


def _places(answer: Answer, kind: str) -> list[str]:
    """Return where the blocks were that this became of."""
    return [one["path"] for one in answer.transformations or () if one["type"] == kind]


def _expected(question: Question, failed_check: FailedCheck) -> frozenset[Outcome]:
    """Return the outcomes that are as assumed."""
    if question.expects == "kept":
        return frozenset({"kept"})
    if question.expects == "dropped":
        return frozenset({"dropped"} if failed_check != "record" else {"dropped", *_UNCHECKED})
    if failed_check == "record":
        return _UNCHECKED
    return frozenset({"refused" if failed_check == "error" else "dropped", "recorded"})


_UNCHECKED: frozenset[Outcome] = frozenset({"kept", "recorded"})


def _assumed(question: Question, failed_check: FailedCheck) -> str:
    if question.expects == "kept":
        return "accepted, kept" if question.sends_thinking else "accepted"
    if failed_check == "record":
        return "accepted"
    if question.expects == "dropped":
        return "block dropped"
    return f"refused ({BOUND_RULE})" if failed_check == "error" else "block dropped"


def _or_older(question: Question, failed_check: FailedCheck) -> str:
    differs = question.expects == "failed" and failed_check != "record"
    return "only recorded" if differs else ""


def _seen(answer: Answer, outcome: Outcome) -> str:
    dropped = len(_places(answer, "thinking_dropped"))
    blocks = "block" if dropped == 1 else f"{dropped} blocks"
    words: dict[Outcome, str] = {
        "kept": "accepted, kept" if answer.sent_thinking else "accepted",
        "dropped": f"{blocks} dropped",
        "others": f"{blocks} dropped, not only the one behind the change",
        "recorded": "only recorded",
        "refused": f"refused ({answer.rule})",
        "refused otherwise": f"refused ({answer.rule or 'no rule that AGORA knows'})",
        "untold": "accepted, not told if kept",
    }
    return words[outcome]
