"""One agent in a real environment, with and without AGORA: its steps, its rewards, its bill.

A shopping assistant takes one order after the other in the same conversation. It acts in WebShop
through a tool; what decides is a reader, a program that acts on nothing but the text it is sent.

    pip install 'agora-lab[environments]'
    AGORA_DATA=folder-with-webshop python lab/examples/story.py --conversations 10 --out story
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import agora
from agora.core.prefix_cache import PrefixCache, Segment
from agora.core.prices import PriceSheet, sheet_for
from agora.core.tokens import EstimatedTokens
from agora_lab.backbones.readers import reader
from agora_lab.environments import Environment, World, world

MODEL = "claude-sonnet-5"
MOST_STEPS = 40
Messages = list[dict[str, Any]]
Shorten = Callable[[Messages], Messages]

TOOL = {
    "type": "function",
    "function": {
        "name": "shop",
        "description": "Do one thing in the shop.",
        "parameters": {"type": "object", "properties": {"action": {"type": "string"}}},
    },
}


@dataclass(slots=True)
class Conversation:
    """What one way of sending came to."""

    name: str
    rewards: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """What each call sent."""
    dollars: list[float] = field(default_factory=list)
    """What each call cost, input only."""
    messages: Messages = field(default_factory=list)

    @property
    def reward(self) -> float:
        """What the orders brought on average."""
        return _mean(self.rewards)


def play(name: str, orders: Sequence[str], shop: World, shorten: Shorten) -> Conversation:
    """Return what happened when the orders were worked through in one conversation."""
    played = Conversation(name, messages=[{"role": "system", "content": shop.instructions}])
    bill = Bill(sheet_for(MODEL))
    environment = shop.make()
    for number, order in enumerate(orders, 1):
        start = environment.reset(order)
        asked = f"Order {number}. {start.task}\n\n{start.observation}"
        played.messages.append({"role": "user", "content": asked})
        played.rewards.append(work(played, environment, shop, shorten, bill))
    environment.close()
    return played


def work(
    played: Conversation, environment: Environment, shop: World, shorten: Shorten, bill: "Bill"
) -> float:
    """Work on the newest order until it is done, and return its reward."""
    reward = 0.0
    for _ in range(MOST_STEPS):
        sent = shorten(played.messages)
        tokens, dollars = bill.send(sent)
        played.tokens.append(tokens)
        played.dollars.append(dollars)
        action = shop.extract(decide(sent))
        outcome = environment.step(action)
        key = f"call_{len(played.tokens)}"
        function = {"name": "shop", "arguments": json.dumps({"action": action})}
        call = {"id": key, "type": "function", "function": function}
        played.messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": key, "content": outcome.observation},
        ]
        reward = outcome.reward
        if outcome.terminated:
            break
    played.messages.append(
        {"role": "assistant", "content": f"Done: {reward:.2f} of what was asked."}
    )
    return reward


def decide(sent: Messages) -> str:
    """Return the reader's answer. It looks at the newest order only, as that says what to buy."""
    newest = max(place for place, message in enumerate(sent) if message["role"] == "user")
    prompt = [sent[0], sent[newest]]
    for message in sent[newest + 1 :]:
        if message["role"] == "tool":
            prompt.append({"role": "user", "content": message["content"]})
        elif message.get("tool_calls"):
            arguments = json.loads(message["tool_calls"][0]["function"]["arguments"])
            prompt.append({"role": "assistant", "content": arguments["action"]})
    return reader("webshop").answer(prompt).text


class Bill:
    """Prices each call with the provider's prefix cache simulated."""

    def __init__(self, sheet: PriceSheet) -> None:
        self._cache = PrefixCache(sheet)
        self._counter = EstimatedTokens()

    def send(self, messages: Messages) -> tuple[int, float]:
        """Return the tokens of a call, and what its input cost."""
        texts = [json.dumps(message, sort_keys=True) for message in messages]
        last = len(texts) - 1
        # As agents do that cache at all: the end of what never changes, and the newest message.
        prompt = [
            Segment(text, self._counter.count(text), breakpoint=at in (0, last))
            for at, text in enumerate(texts)
        ]
        return sum(segment.tokens for segment in prompt), self._cache.send(prompt).dollars


def by_price(messages: Messages) -> Messages:
    """Return what AGORA sends: an edit where the price sheet says that it pays."""
    sent: Messages = agora.compress(messages, model=MODEL, tools=[TOOL]).messages
    return sent


def every_call(messages: Messages) -> Messages:
    """Return what editing at each call sends, whatever it does to the cache."""
    compressor = agora.Compressor(schedule="every_call")
    sent: Messages = compressor.compress(messages, model=MODEL, tools=[TOOL]).messages
    return sent


WAYS: dict[str, Shorten] = {
    "everything": lambda messages: messages,
    "AGORA": by_price,
    "every call": every_call,
}


def table(conversations: Sequence[Sequence[Conversation]]) -> str:
    """Return the account in columns: means, and the change with its interval."""
    lines = [f"{'sent':11} {'reward':>6} {'steps':>6} {'tokens':>10} {'input bill':>10}  change"]
    for place, name in enumerate(WAYS):
        own = [played[place] for played in conversations]
        whole = [played[0] for played in conversations]
        lines.append(
            f"{name:11} {_mean(one.reward for one in own):6.3f} "
            f"{_mean(len(one.tokens) for one in own):6.1f} "
            f"{_mean(sum(one.tokens) for one in own):10,.0f} "
            f"{'$':>3}{_mean(sum(one.dollars) for one in own):7.4f}"
            + (f"  {changes(own, whole)}" if place else "")
        )
    return "\n".join(lines)


def changes(own: Sequence[Conversation], whole: Sequence[Conversation]) -> str:
    """Return reward, steps and bill against sending everything, over conversations."""
    pairs = list(zip(own, whole, strict=True))
    said = []
    for name, form, value in (
        ("reward", "{:+.3f}", _reward),
        ("steps", "{:+.1%}", _steps),
        ("bill", "{:+.1%}", _bill),
    ):
        rng = random.Random(0)
        drawn = sorted(value(rng.choices(pairs, k=len(pairs))) for _ in range(2_000))
        interval = f" [{form.format(drawn[50])}, {form.format(drawn[1949])}]"
        said.append(f"{name} {form.format(value(pairs))}{interval if len(pairs) > 1 else ''}")
    return ", ".join(said)


def _reward(pairs: Sequence[tuple[Conversation, Conversation]]) -> float:
    return _mean(own.reward - whole.reward for own, whole in pairs)


def _steps(pairs: Sequence[tuple[Conversation, Conversation]]) -> float:
    return sum(len(own.tokens) for own, _ in pairs) / sum(len(one.tokens) for _, one in pairs) - 1


def _bill(pairs: Sequence[tuple[Conversation, Conversation]]) -> float:
    return sum(sum(own.dollars) for own, _ in pairs) / sum(sum(one.dollars) for _, one in pairs) - 1


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


STYLE = """
text{font:13px system-ui,sans-serif;fill:#1b1f27}.soft{fill:#565e6c}
.card{fill:#fff;stroke:#dfe3e8}.axis{stroke:#c4cad3}
@media (prefers-color-scheme:dark){text{fill:#e8ebf0}.soft{fill:#a4adbb}
.card{fill:#1b2027;stroke:#313843}.axis{stroke:#49525f}}
"""


def draw(played: Sequence[Conversation]) -> str:
    """Return a picture: what each call sent, and what all calls so far cost."""
    wide, high = 720, 420
    calls = max(len(one.tokens) for one in played)
    colours = {"everything": "#717b8a", "AGORA": "#3f9a5f", "every call": "#d98a1c"}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img">',
        f"<title>Tokens per call, and dollars so far</title><style>{STYLE}</style>",
        f'<rect x=".5" y=".5" width="{wide - 1}" height="{high - 1}" rx="10" class="card"/>',
    ]
    panels: tuple[tuple[int, str, Sequence[Sequence[float]], str], ...] = (
        (40, "tokens that each call sent", [one.tokens for one in played], "{:,.0f}"),
        (232, "dollars so far, input only", [_sums(one.dollars) for one in played], "${:.2f}"),
    )
    for top, title, lines, form in panels:
        most = max(max(line) for line in lines)
        parts.append(f'<text x="20" y="{top - 14}">{title}; at most {form.format(most)}</text>')
        parts.append(f'<line x1="20" x2="700" y1="{top + 140}" y2="{top + 140}" class="axis"/>')
        for one, line in zip(played, lines, strict=True):
            points = " ".join(
                f"{20 + 680 * at / max(1, calls - 1):.1f},{top + 140 - 134 * value / most:.1f}"
                for at, value in enumerate(line)
            )
            colour = colours[one.name]
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
            )
    for place, one in enumerate(played):
        x = 20 + 190 * place
        parts.append(f'<rect x="{x}" y="394" width="14" height="10" fill="{colours[one.name]}"/>')
        parts.append(f'<text x="{x + 20}" y="404" class="soft">{one.name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _sums(values: Sequence[float]) -> list[float]:
    sums, so_far = [], 0.0
    for value in values:
        so_far += value
        sums.append(so_far)
    return sums


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the story, say what came of it, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--orders", type=int, default=8)
    parser.add_argument("--conversations", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("story"))
    given = parser.parse_args(arguments)
    shop = world("webshop")
    orders = shop.splits()["validation"]
    conversations = []
    for number in range(given.conversations):
        chosen = orders[number * given.orders : (number + 1) * given.orders]
        conversations.append([play(name, chosen, shop, way) for name, way in WAYS.items()])
    played = conversations[0]
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "story.svg").write_text(draw(played), encoding="utf-8")
    body = {"model": MODEL, "messages": played[0].messages, "tools": [TOOL]}
    (given.out / "request.json").write_text(json.dumps(body), encoding="utf-8")
    (given.out / "story.txt").write_text(table(conversations) + "\n", encoding="utf-8")
    sys.stdout.write(f"{table(conversations)}\n\nThe picture: {given.out / 'story.svg'}\n")
    sys.stdout.write(f"Look at its steps: agora explain {given.out / 'request.json'}\n")


if __name__ == "__main__":
    main()
