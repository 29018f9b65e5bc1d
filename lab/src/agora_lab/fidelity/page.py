"""The judge's page: the verdict, the methods by source, and anchors to look into."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agora.pages import write_page
from agora_lab.chats import COUNTER
from agora_lab.fidelity.alignment import align, shown
from agora_lab.fidelity.judged import DEFAULT, NEWEST, prompts_of, read_prompts, sent_name
from agora_lab.fidelity.records import Measured
from agora_lab.fidelity.recovered import Setting, Table
from agora_lab.fidelity.rows import EVERYTHING, FLOOR
from agora_lab.fidelity.words import ABOUT, KINDS, METHODS

MOST_ANCHORS = 24
MOST_BYTES = 3_000_000
"""Of the page's data: what a phone still opens at once."""

Json = dict[str, Any]


def page(table: Table, summary: Mapping[str, Any]) -> str:
    """Return the page of a run. It is one file: it fetches nothing and sends nothing."""
    return write_page("agora_lab.fidelity", "page.html", account(table, summary))


def account(table: Table, summary: Mapping[str, Any]) -> Json:
    """Return all that the page shows, as JSON."""
    data: Json = {
        **summary,
        "names": METHODS,
        "abouts": ABOUT,
        "kinds": KINDS,
        "sources": list(table.run.sources),
        "kind_of": {name: table.kind_of(name) for name in table.run.sources},
        "anchors": [],
    }
    room = MOST_BYTES - _size(data)
    for shown_anchor in _anchors(table):
        size = _size(shown_anchor)
        if size <= room:
            data["anchors"].append(shown_anchor)
            room -= size
    return data


def choose(table: Table, keys: Sequence[str], count: int) -> list[str]:
    """Return the anchors of one source to look into, the most telling ones first.

    In turn: where the headline's method is ahead by most, where it is behind by most,
    and an ordinary one from the middle. What is shown is thus not only what went well.
    """
    first = table.run.headline[0] if table.run.headline else None
    ours = (first.ours, first.keep) if first else (DEFAULT, None)
    theirs = (first.theirs, first.keep) if first else (NEWEST, None)

    def ahead(key: str) -> float:
        rows = table.by_anchor[key]
        if ours not in rows or theirs not in rows:
            return 0.0
        gap = table.lost(key, (FLOOR, None), "action")
        return (table.lost(key, theirs, "action") - table.lost(key, ours, "action")) / max(gap, 1.0)

    left = sorted(keys, key=lambda key: (-ahead(key), key))
    chosen: list[str] = []
    while left and len(chosen) < count:
        place = (0, len(left) - 1, len(left) // 2)[len(chosen) % 3]
        chosen.append(left.pop(place))
    return chosen


def _anchors(table: Table) -> Iterator[Json]:
    """Yield the anchors to look into, sources in turn: a full page has some of each."""
    files = read_prompts(table.run.folder)
    own = {source: [key for key in keys if key in files] for source, keys in table.compared.items()}
    own = {source: keys for source, keys in own.items() if keys}
    each = -(-MOST_ANCHORS // max(1, len(own)))
    picked = [choose(table, keys, each) for keys in own.values()]
    turns = [keys[turn] for turn in range(each) for keys in picked if turn < len(keys)]
    for key in turns[:MOST_ANCHORS]:
        yield _anchor(table, key, files[key])


def _anchor(table: Table, key: str, file: Path) -> Json:
    anchor, rows = table.run.anchors[key], table.by_anchor[key]
    prompts = prompts_of(file)
    before = [shown(message) for message in prompts["whole"]]
    everything = rows[EVERYTHING, None]
    views = {}
    for setting in [(FLOOR, None), *table.settings()]:
        name = sent_name(*setting)
        row = rows.get(setting)
        # Methods that were scored on another tokenisation of the message cannot be laid over it.
        if name in prompts["sent"] and row and _same_pieces(row, everything):
            after = [shown(message) for message in prompts["sent"][name]]
            views[name] = _view(table, key, setting, row) | {"parts": align(before, after)}
    return {
        "key": key,
        "source": anchor.source,
        "kind": anchor.kind,
        "task": anchor.task,
        "step": anchor.step,
        "needed": list(anchor.needed),
        "tokens_whole": anchor.tokens_whole,
        "tokens_floor": anchor.tokens_floor,
        "gap": round(table.lost(key, (FLOOR, None), "action"), 3),
        "pieces": [[text, mark, round(nats, 3)] for text, nats, mark in everything.pieces],
        "messages": [[one.who, one.text, COUNTER.count(one.text)] for one in before],
        "views": views,
    }


def _view(table: Table, key: str, setting: Setting, row: Measured) -> Json:
    gap = table.lost(key, (FLOOR, None), "action")
    return {
        "method": setting[0],
        "keep": setting[1],
        "sent": row.tokens_sent,
        "share": round(1 - table.lost(key, setting, "action") / gap, 4) if gap > 0 else None,
        "lost": round(table.lost(key, setting, "action"), 3),
        "nats": [round(nats, 3) for _, nats, _ in row.pieces],
    }


def _same_pieces(one: Measured, other: Measured) -> bool:
    return [text for text, *_ in one.pieces] == [text for text, *_ in other.pieces]


def _size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")))
