"""Every legal history up to a length, spelled with eight symbols in each message format.

The symbols: a system message, a user message, assistant text, one call, two parallel calls, a
matching result (of the newest call that waits), a late result (of the oldest call, while a newer
one waits too, so it comes after something else), and thinking.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from agora.formats import validate

Message = dict[str, Any]
Symbol = Literal["S", "U", "A", "C", "P", "R", "L", "T"]
SYMBOLS: tuple[Symbol, ...] = ("S", "U", "A", "C", "P", "R", "L", "T")

_OBSERVATION_CHARACTERS = 400
"""Long enough that eliding one step gains something even in a history of four messages."""


@dataclass(frozen=True, slots=True)
class History:
    """A word over the symbols, and the request it spells."""

    word: str
    format: str
    messages: list[Message]
    system: str | None = None

    def broken(self, messages: Any = None, **options: Any) -> set[str]:
        """Return the codes of the rules that `messages`, by default its own, break."""
        found = validate(
            self.messages if messages is None else messages,
            format=self.format,
            system=self.system,
            **options,
        )
        return {rule.code for rule in found}


@dataclass(frozen=True, slots=True)
class Spelling:
    """How one wire format writes the symbols."""

    name: str
    format: str
    write: Callable[[str], History | None]
    """Return the history a word spells; None where a symbol cannot stand as it does."""


def histories(spelling: Spelling, longest: int) -> Iterator[History]:
    """Yield every legal history of one to `longest` symbols, shorter prefixes first.

    A prefix that is not legal yet is followed only if answering its open calls
    would make it legal, in the room that is left: nothing else can mend it.
    """
    words = [""]
    while words:
        word = words.pop()
        for symbol in SYMBOLS:
            longer = word + symbol
            history = spelling.write(longer)
            if history is None:
                continue
            room = longest - len(longer)
            if not history.broken():
                yield history
            elif not _can_be_completed(longer, spelling, room):
                continue
            if room:
                words.append(longer)


def waiting(word: str) -> list[int]:
    """Return the numbers of the calls that wait for their result after `word`, oldest first."""
    calls: list[int] = []
    made = 0
    for symbol in word:
        for _ in range({"C": 1, "P": 2, "T": 1}.get(symbol, 0)):
            made += 1
            calls.append(made)
        if symbol == "R":
            calls.pop()
        elif symbol == "L":
            calls.pop(0)
    return calls


def _can_be_completed(word: str, spelling: Spelling, room: int) -> bool:
    results = "R" * len(_waiting_in(word, spelling))
    # What a trailing thought waits for is an action, and what Gemini said last for its user.
    for ending in (results, "A" + results, "U"):
        if len(ending) <= room:
            completed = spelling.write(word + ending)
            if completed is not None and not completed.broken():
                return True
    return False


def _waiting_in(word: str, spelling: Spelling) -> list[int]:
    return waiting(word.replace("T", "") if spelling.format == "responses" else word)


def observation(number: int) -> str:
    """Return the result of call `number`, distinct from all others by its length."""
    size = _OBSERVATION_CHARACTERS + 37 * number
    said = f"record R{number}00{number} of flight HAT{number}36 is open, page {number}. "
    return (said * (size // len(said) + 1))[:size]


def _ids(word: str, at: int, *, thinking_calls: bool = True) -> list[int] | None:
    """Return the calls that the symbol at `at` makes or answers; None if there is none."""
    before = word[:at] if thinking_calls else word[:at].replace("T", "")
    open_calls = waiting(before)
    symbol = word[at]
    if symbol == "R":
        return [open_calls[-1]] if open_calls else None
    if symbol == "L":
        return [open_calls[0]] if len(open_calls) > 1 else None
    made = before.count("C") + 2 * before.count("P") + before.count("T")
    count = {"C": 1, "P": 2, "T": 1}.get(symbol, 0)
    return [made + 1 + i for i in range(count)]


def call_id(number: int) -> str:
    """Return the id of a call: nine letters and digits, as the strictest provider asks."""
    return f"call{number:05d}"


def _arguments(number: int) -> dict[str, Any]:
    return {"reservation": f"EHG{number}P3", "page": number}


def _chat_call(number: int) -> Message:
    arguments = f'{{"reservation": "EHG{number}P3", "page": {number}}}'
    return {
        "id": call_id(number),
        "type": "function",
        "function": {"name": "get_reservation", "arguments": arguments},
    }


def _write_chat(word: str) -> History | None:
    messages: list[Message] = []
    for at, symbol in enumerate(word):
        ids = _ids(word, at)
        if ids is None:
            return None
        if symbol == "S":
            message: Message = {"role": "system", "content": "Be brief."}
        elif symbol == "U":
            message = {"role": "user", "content": f"Please look at booking {at}."}
        elif symbol == "A":
            message = {"role": "assistant", "content": f"It is open, as of {at}."}
        elif symbol in "RL":
            message = {
                "role": "tool",
                "tool_call_id": call_id(ids[0]),
                "content": observation(ids[0]),
            }
        else:
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [_chat_call(number) for number in ids],
            }
            if symbol == "T":
                message["reasoning_content"] = "The booking has to be read first."
        messages.append(message)
    return History(word, "openai", messages)


def _write_responses(word: str) -> History | None:
    items: list[Message] = []
    for at, symbol in enumerate(word):
        ids = _ids(word, at, thinking_calls=False)
        if ids is None:
            return None
        if symbol in "SU":
            role, text = ("system", "Be brief.") if symbol == "S" else ("user", f"Look at {at}.")
            items.append({"type": "message", "role": role, "content": text})
        elif symbol == "A":
            part = {"type": "output_text", "text": f"It is open, as of {at}."}
            items.append(
                {"type": "message", "role": "assistant", "id": f"msg_{at}", "content": [part]}
            )
        elif symbol == "T":
            items.append({"type": "reasoning", "id": f"rs_{at}", "summary": []})
        elif symbol in "RL":
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": call_id(ids[0]),
                    "output": observation(ids[0]),
                }
            )
        else:
            items += [
                {
                    "type": "function_call",
                    "id": f"fc_{number}",
                    "call_id": call_id(number),
                    "name": "get_reservation",
                    "arguments": _chat_call(number)["function"]["arguments"],
                }
                for number in ids
            ]
    return History(word, "responses", items)


def _write_anthropic(word: str, *, merged: bool) -> History | None:
    messages: list[Message] = []
    system = None
    for at, symbol in enumerate(word):
        ids = _ids(word, at)
        if ids is None:
            return None
        if symbol == "S":
            if at:
                return None
            system = "Be brief."
            continue
        role = "user" if symbol in "URL" else "assistant"
        blocks = _anthropic_blocks(symbol, at, ids)
        if merged and role == "user" and messages and messages[-1]["role"] == "user":
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    return History(word, "anthropic", messages, system)


def _anthropic_blocks(symbol: str, at: int, ids: list[int]) -> list[Message]:
    if symbol == "U":
        return [{"type": "text", "text": f"Please look at booking {at}."}]
    if symbol == "A":
        return [{"type": "text", "text": f"It is open, as of {at}."}]
    if symbol in "RL":
        return [
            {"type": "tool_result", "tool_use_id": call_id(n), "content": observation(n)}
            for n in ids
        ]
    thinking: list[Message] = []
    if symbol == "T":
        thinking = [{"type": "thinking", "thinking": "Read it first.", "signature": f"sig{at}"}]
    return thinking + [
        {"type": "tool_use", "id": call_id(n), "name": "get_reservation", "input": _arguments(n)}
        for n in ids
    ]


def _write_gemini(word: str, *, merged: bool, signed: bool) -> History | None:
    """Spell a word in contents. The results of one turn always share a content: the API asks it.

    `merged` puts what the user says next to them too, as clients that join
    contents of one role do. Without `signed` only thinking leaves a signature.
    """
    contents: list[Message] = []
    system = None
    for at, symbol in enumerate(word):
        ids = _ids(word, at)
        if ids is None:
            return None
        if symbol == "S":
            if at:
                return None
            system = "Be brief."
            continue
        role = "user" if symbol in "URL" else "model"
        parts = _gemini_parts(symbol, at, ids, signed=signed)
        joins = merged or (symbol in "RL" and word[at - 1] in "RL")
        if joins and role == "user" and contents and contents[-1]["role"] == "user":
            contents[-1]["parts"] += parts
        else:
            contents.append({"role": role, "parts": parts})
    return History(word, "gemini", contents, system)


def _gemini_parts(symbol: str, at: int, ids: list[int], *, signed: bool) -> list[Message]:
    if symbol == "U":
        return [{"text": f"Please look at booking {at}."}]
    if symbol == "A":
        return [{"text": f"It is open, as of {at}."}]
    if symbol in "RL":
        said = [{"name": "get_reservation", "response": {"output": observation(n)}} for n in ids]
        return [{"functionResponse": one} for one in said]
    calls: list[Message] = [
        {"functionCall": {"name": "get_reservation", "args": _arguments(n)}} for n in ids
    ]
    if signed or symbol == "T":
        calls[0]["thoughtSignature"] = f"sig{at}"
    thought = {"text": "Read it first.", "thought": True}
    return [thought, *calls] if symbol == "T" else calls


def _write_bedrock(word: str) -> History | None:
    """Spell a word in messages that alternate, as Converse asks: a role's blocks share one."""
    messages: list[Message] = []
    system = None
    for at, symbol in enumerate(word):
        ids = _ids(word, at)
        if ids is None:
            return None
        if symbol == "S":
            if at:
                return None
            system = "Be brief."
            continue
        role = "user" if symbol in "URL" else "assistant"
        blocks = _bedrock_blocks(symbol, at, ids)
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    return History(word, "bedrock", messages, system)


def _bedrock_blocks(symbol: str, at: int, ids: list[int]) -> list[Message]:
    if symbol == "U":
        return [{"text": f"Please look at booking {at}."}]
    if symbol == "A":
        return [{"text": f"It is open, as of {at}."}]
    if symbol in "RL":
        results = [{"toolUseId": call_id(n), "content": [{"text": observation(n)}]} for n in ids]
        return [{"toolResult": result} for result in results]
    reasoning: list[Message] = []
    if symbol == "T":
        shown = {"text": "Read it first.", "signature": f"sig{at}"}
        reasoning = [{"reasoningContent": {"reasoningText": shown}}]
    uses = [
        {"toolUseId": call_id(n), "name": "get_reservation", "input": _arguments(n)} for n in ids
    ]
    return reasoning + [{"toolUse": use} for use in uses]


CHAT = Spelling("openai", "openai", _write_chat)
RESPONSES = Spelling("responses", "responses", _write_responses)
ANTHROPIC = Spelling("anthropic", "anthropic", lambda word: _write_anthropic(word, merged=False))
ANTHROPIC_MERGED = Spelling(
    "anthropic, one message per side",
    "anthropic",
    lambda word: _write_anthropic(word, merged=True),
)
GEMINI = Spelling("gemini", "gemini", lambda word: _write_gemini(word, merged=False, signed=True))
GEMINI_MERGED = Spelling(
    "gemini, one content per side",
    "gemini",
    lambda word: _write_gemini(word, merged=True, signed=False),
)
BEDROCK = Spelling("bedrock", "bedrock", _write_bedrock)
SPELLINGS = (
    CHAT,
    RESPONSES,
    ANTHROPIC,
    ANTHROPIC_MERGED,
    GEMINI,
    GEMINI_MERGED,
    BEDROCK,
)
