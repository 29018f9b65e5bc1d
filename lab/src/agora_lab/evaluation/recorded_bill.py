"""The cost recorded trajectories would have had under each method, call by call, with caching.

Prompts of text environments are short; caching matters for recorded tool calling.
AGORA by price is built separately for each sheet, since its schedule depends on
the sheet; other methods are the same for all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agora.core.prefix_cache import PrefixCache, Segment
from agora.core.prices import PriceSheet
from agora_lab.chats import Message, text_of, tokens_of
from agora_lab.evaluation.conversations import Conversation
from agora_lab.evaluation.results import NONE
from agora_lab.evaluation.statistics import Estimate, mean, ratio_of_means
from agora_lab.methods import Method


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBill:
    """The bill of one method on one source by one sheet."""

    source: str
    method: str
    sheet: str
    trajectories: int
    ratio: Estimate
    """Input cost as a ratio to `none`."""
    worst: float
    """On the trajectory where that ratio is highest."""
    compression: Estimate
    """Mean over trajectories of tokens sent by `none` / tokens sent."""


Make = Callable[[str, PriceSheet], Method]
"""Makes a method by name for a sheet."""


def recorded_bills(
    conversations: Sequence[Conversation],
    methods: Sequence[str],
    sheets: Mapping[str, PriceSheet],
    make: Make,
    by_price: Callable[[str], bool],
) -> Iterator[RecordedBill]:
    """Yield the bill of each method by each sheet; `by_price` says which depend on the sheet."""
    by_source: dict[str, list[Conversation]] = {}
    for conversation in conversations:
        if conversation.steps:
            by_source.setdefault(conversation.source, []).append(conversation)
    for source, own in sorted(by_source.items()):
        costs = {name: _costs(own, name, sheets, make, by_price) for name in (NONE, *methods)}
        for name in dict.fromkeys((NONE, *methods)):
            for sheet in sheets:
                ours, theirs = costs[name][sheet], costs[NONE][sheet]
                ratio = ratio_of_means([c for c, _ in ours], [c for c, _ in theirs])
                if ratio is None:
                    continue
                pairs = list(zip(ours, theirs, strict=True))
                yield RecordedBill(
                    source=source,
                    method=name,
                    sheet=sheet,
                    trajectories=len(own),
                    ratio=ratio.estimate,
                    worst=round(max(a[0] / b[0] for a, b in pairs if b[0]), 4),
                    compression=mean([b[1] / max(1, a[1]) for a, b in pairs]).estimate,
                )


def _costs(
    conversations: Sequence[Conversation],
    name: str,
    sheets: Mapping[str, PriceSheet],
    make: Make,
    by_price: Callable[[str], bool],
) -> dict[str, list[tuple[float, int]]]:
    """Return dollars and tokens per trajectory, by sheet."""
    costs: dict[str, list[tuple[float, int]]] = {sheet: [] for sheet in sheets}
    groups = [[sheet] for sheet in sheets] if by_price(name) else [list(sheets)]
    for group in groups:
        method = make(name, sheets[group[0]])
        for conversation in conversations:
            caches = {sheet: PrefixCache(sheets[sheet]) for sheet in group}
            dollars = dict.fromkeys(group, 0.0)
            tokens = 0
            for step in range(1, conversation.steps + 1):
                sent = method.shorten(conversation.before(step)).messages
                prompt = _segments(sent)
                tokens += sum(segment.tokens for segment in prompt)
                for sheet in group:
                    dollars[sheet] += caches[sheet].send(prompt).dollars
            for sheet in group:
                costs[sheet].append((dollars[sheet], tokens))
    return costs


def _segments(messages: Sequence[Message]) -> list[Segment]:
    """Return a prompt as a cache compares it; a marker after a message is a separate piece."""
    segments: list[Segment] = []
    last = len(messages) - 1
    for at, message in enumerate(messages):
        text = text_of(message)
        head, cut, marker = text.partition("\n\n[")
        if not cut or message.get("role") != "user":
            segments.append(Segment(text, tokens_of([message]), at in (1, last)))
            continue
        segments.append(Segment(head, tokens_of([{"content": head}]), at == 1))
        segments.append(Segment(marker, tokens_of([{"content": marker}]), at == last))
    return segments
