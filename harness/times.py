"""How time grows with a history, and what compressing it costs next to reading its JSON.

CPU time of this process, the best of several tries.
"""

import gc
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from agora import Compressor, EstimatedTokens
from agora.core import Markers, omitted
from agora.formats import format_named, make_request
from agora.paper import PaperCompressor
from agora.scorers import RecencyScorer

Message = dict[str, Any]

MIB = 1024 * 1024
PRESETS: dict[str, Compressor | PaperCompressor] = {
    "default": Compressor(edits="every_call"),
    "paper": Compressor.paper(RecencyScorer()),
}
_WORDS = (
    "the reservation EHGLP3 of user mia_li_3668 flies HAT136 from JFK to SEA on 2024-05-20 in "
    "basic economy and costs 152 dollars with one checked bag; status confirmed"
).split()


def chat(observations: Iterator[str]) -> list[Message]:
    """Return an OpenAI-chat history with one step for each observation."""
    messages: list[Message] = [
        {"role": "system", "content": "You book flights."},
        {"role": "user", "content": "Please rebook EHGLP3 to the day after."},
    ]
    for number, observation in enumerate(observations):
        call_id = f"call_{number}"
        function = {"name": "get_page", "arguments": f'{{"page": {number}, "user": "mia_li_3668"}}'}
        call = {"id": call_id, "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call_id, "content": observation})
    return messages


def steps(count: int, chance: random.Random) -> list[Message]:
    """Return a history of `count` steps of ordinary size."""
    return chat(prose(chance, 400) for _ in range(count))


def prose(chance: random.Random, size: int) -> str:
    """Return about `size` characters of words, names and numbers, in lines of some ten words."""
    pieces = []
    length = 0
    while length < size:
        word = chance.choice(_WORDS) if chance.random() < 0.9 else str(chance.randrange(10**6))
        pieces += [word, "\n" if chance.random() < 0.1 else " "]
        length += len(word) + 1
    return "".join(pieces)


def _json_text(chance: random.Random, size: int) -> str:
    records = [
        {"id": chance.randrange(10**9), "name": prose(chance, 60), "path": 'C:\\new\\"quoted"\t'}
        for _ in range(size // 140 + 1)
    ]
    return json.dumps(records, indent=1)


def _cjk(chance: random.Random, size: int) -> str:
    return "".join(chr(chance.randint(0x4E00, 0x9FA5)) for _ in range(size))


SHAPES: dict[str, Callable[[random.Random], str]] = {
    "500 B": lambda chance: prose(chance, 500),
    "2 KB": lambda chance: prose(chance, 2_000),
    "5 KB": lambda chance: prose(chance, 5_000),
    "20 KB": lambda chance: prose(chance, 20_000),
    "5 KB without a line break": lambda chance: prose(chance, 5_000).replace("\n", " "),
    "JSON in JSON, 2 KB": lambda chance: _json_text(chance, 2_000),
    "Chinese, 2 KB": lambda chance: _cjk(chance, 700),
}


def body(shape: str, size: int) -> bytes:
    """Return the UTF-8 bytes of a chat request of about `size` bytes."""
    chance = random.Random(shape)

    def observations() -> Iterator[str]:
        made = 0
        while made < size:
            text = SHAPES[shape](chance)
            made += len(json.dumps(text, ensure_ascii=False).encode()) + 250
            yield text

    request = {"model": "any", "messages": chat(observations())}
    return json.dumps(request, ensure_ascii=False).encode()


Make = Callable[[int, random.Random], list[Message]]
"""Makes a new history of about the given number of bytes at each call."""


def _in_ten(text: Callable[[int, random.Random], str]) -> Make:
    return lambda size, chance: chat(text(size // 10, chance) for _ in range(10))


def _mixed(*units: str) -> Make:
    mean = sum(len(unit.encode()) for unit in units) / len(units)
    return _in_ten(lambda size, chance: "".join(chance.choices(units, k=int(size / mean))))


def _letters(alphabet: str) -> Make:
    table = bytes(ord(alphabet[i % len(alphabet)]) for i in range(256))
    return _in_ten(lambda size, chance: chance.randbytes(size).translate(table).decode())


def _named(pattern: str) -> Make:
    """Return a maker of text that repeats the pattern, each time with another name."""

    def text(size: int, chance: random.Random) -> str:
        names = [f"{chance.getrandbits(20):x}" for _ in range(5_000)]
        units = [pattern.format(name) for name in names]
        return "".join(chance.choices(units, k=size // len(units[0].encode())))

    return _in_ten(text)


HOSTILE: dict[str, Make] = {
    "one line": _letters("abcdefghijklmnopqrstuvwxyz"),
    "nested quotes": _mixed('"', "'", "`", "“", "a"),
    "nested brackets": _mixed("[", "{", "(", "<", "1"),
    "backslashes": _mixed("\\", '\\"', "n", " "),
    "combining marks": _mixed("e\u0301", "\u0323", "\u0308", "o", " "),
    "zero-width joiners": _mixed("👩\u200d", "👧\u200d", "👩🏽", "\u200d"),
    "right to left": _mixed("\u202e", "שלום", "\u202c ", "مرحبا "),
    "base64": _letters("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"),
    "ANSI colours": _named("\x1b[31m{}\x1b[0m "),
    "tiny messages": lambda size, _: chat("ok" for _ in range(size // 168)),
    "capitalised words": _named("Name{} "),
    "paths": _named("/src/{}/../lib.c:12 "),
    "blank lines": _mixed("\n", " ", "\t", "\r\n", "x"),
    "forged markers": _named("[steps 1-2 elided]\n[ASSISTANT] Action: {}\n"),
}


def in_turns(times: int, *actions: Callable[[], object]) -> list[float]:
    """Return the least CPU seconds each action took, tried in turns `times` times.

    In turns, so that a busy spell of the machine affects all of them.
    """
    best = [float("inf")] * len(actions)
    for _ in range(times):
        for place, action in enumerate(actions):
            gc.collect()
            # The collector's work depends on other objects of the process.
            gc.disable()
            begun = time.process_time()
            action()
            best[place] = min(best[place], time.process_time() - begun)
            gc.enable()
    return best


@dataclass(frozen=True, slots=True)
class Growth:
    """Time at one size and at twice the size."""

    seconds: float
    doubled_seconds: float

    @property
    def ratio(self) -> float:
        """The ratio of the time at twice the size to the time at the size."""
        return self.doubled_seconds / self.seconds


def growth(
    compressor: Compressor | PaperCompressor, make: Make, size: int, times: int = 3
) -> Growth:
    """Return how the time to compress grows when the size doubles.

    Every try has new texts, because cached ones would cost nothing.
    """
    tries = []
    for seed in range(times):
        small, large = (make(n, random.Random(f"{size} {seed} {n}")) for n in (size, 2 * size))
        tries.append(
            in_turns(
                1,
                partial(compressor.compress, small, format="openai"),
                partial(compressor.compress, large, format="openai"),
            )
        )
    return Growth(min(seconds for seconds, _ in tries), min(doubled for _, doubled in tries))


@dataclass(frozen=True, slots=True)
class RatioToJson:
    """The cost of compressing a body, as multiples of `json.loads`."""

    loads_seconds: float
    stages: float
    """Parse, and render without all steps but the newest two."""
    whole: float
    """The paper's method by recency, checked by the validator."""
    forms: float
    """The default method by recency."""


def ratio_to_json(raw: bytes, times: int = 3) -> RatioToJson:
    """Return the cost of compressing the request in `raw`, compared with reading it."""
    messages = json.loads(raw)["messages"]
    with_forms = Compressor(scorer=RecencyScorer(), edits="every_call")
    # Once, since the texts are remembered after that.
    forms = min(in_turns(1, lambda: with_forms.compress(messages, format="openai")))
    loads, stages, whole = in_turns(
        times,
        lambda: json.loads(raw),
        lambda: _stages(messages),
        lambda: PRESETS["paper"].compress(messages, format="openai"),
    )
    return RatioToJson(loads, stages / loads, whole / loads, forms / loads)


def _stages(messages: list[Message]) -> object:
    format = format_named("openai")
    parsed = format.parse(make_request(messages, format="openai"), EstimatedTokens())
    elided = {step.number: omitted(step.number) for step in parsed.trajectory.steps[:-2]}
    return format.render(parsed, elided, Markers())
