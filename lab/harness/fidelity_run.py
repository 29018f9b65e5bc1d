"""A made-up run of the judge: real files in the real layout, from a seed and no model.

Tokens of an identifier are likely where the prompt still has it and unlikely where
it does not, so what a report should say about each method is known beforehand.
"""

import gzip
import hashlib
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SOURCES = {
    "airline": "tools",
    "retail": "tools",
    "coding": "coding",
    "intercode": "shell",
    "scienceworld": "text",
}
MARGIN = 2.0
Message = dict[str, Any]
Messages = list[Message]
_WORD = re.compile(r"\s*(?:[^\W_]{1,4}|[\W_])")


def write_run(
    folder: Path, *, tasks: int = 8, per_task: int = 2, seed: int = 0, steps: int = 9
) -> Path:
    """Write a whole run: plan, anchors, rows and prompts."""
    chance = random.Random(seed)
    (folder / "prompts").mkdir(parents=True, exist_ok=True)
    plan = {
        "model": "a made-up judge",
        "margin": MARGIN,
        "seed": seed,
        "date": "2026-11-16",
        "sources": list(SOURCES),
        "methods": [
            {"method": name, "keep": keep} for name, keeps in _keeps().items() for keep in keeps
        ],
        "headline": [
            {"source": source, "ours": "forms_now", "theirs": "newest", "keep": 0.25}
            for source in SOURCES
        ],
    }
    (folder / "plan.json").write_text(json.dumps(plan, indent=1), encoding="utf-8")
    anchors, rows = [], []
    for source, kind in SOURCES.items():
        for task in range(tasks):
            for number in range(per_task):
                made = _anchor(source, kind, f"task-{task}", number, steps, chance)
                anchors.append(made[0])
                rows += made[1]
                name = hashlib.sha256(made[0]["anchor"].encode()).hexdigest()[:16]
                data = gzip.compress(json.dumps(made[2]).encode(), mtime=0)
                (folder / "prompts" / f"{name}.json.gz").write_bytes(data)
    for name, lines in (("anchors", anchors), ("fidelity", rows)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder


def _keeps() -> dict[str, list[float | None]]:
    keeps: dict[str, list[float | None]] = {"everything": [None], "floor": [None]}
    keeps |= {"newest": [0.15, 0.25, 0.5], "forms_now": [0.15, 0.25, 0.5]}
    others = ("masking", "commands_first", "paper", "langchain", "litellm")
    return keeps | {name: [0.25] for name in others}


def _anchor(
    source: str, kind: str, task: str, number: int, steps: int, chance: random.Random
) -> tuple[Message, list[Message], Message]:
    names = [f"{source}_{chance.randrange(10**6):06d}" for _ in range(steps)]
    messages = _conversation(kind, task, names, chance)
    wanted = chance.randrange(0, steps - 3)
    target, marked = _target(kind, names[wanted], chance)
    key = f"{source}|{task}|{number}"
    base: Message = {"anchor": key, "source": source, "kind": kind, "task": task}
    base["half"] = "validation" if int(task.split("-")[1]) % 2 == 0 else "test"
    sent = {"floor": _floor(messages)}
    for method, keeps in _keeps().items():
        for keep in keeps:
            if keep is not None:
                sent[f"{method}@{keep:g}"] = METHODS[method](messages, keep)
    prompts = {"anchor": key, "whole": messages, "tools": [], "target": target, "sent": sent}
    whole, floor = _tokens(messages), _tokens(sent["floor"])
    base |= {"tokens_whole": whole, "tokens_floor": floor}
    rows: list[Message] = []
    for name, prompt in {"everything": messages, **sent}.items():
        method, _, keep_text = name.partition("@")
        rows.append(
            {
                **base,
                "method": method,
                "keep": float(keep_text) if keep_text else None,
                "tokens_sent": _tokens(prompt),
                "changed": prompt != messages,
                "seconds": 1.0,
                "read_tokens": _tokens(prompt),
                "error": "",
                "pieces": _pieces(target, marked, _text(prompt), names[wanted]),
            }
        )
    nats = {
        row["method"]: sum(n for _, n, mark in row["pieces"] if mark)
        for row in rows
        if row["keep"] is None
    }
    gap = nats["floor"] - nats["everything"]
    anchor = {
        **base,
        "step": steps,
        "needed": [names[wanted]],
        "passed": gap >= MARGIN,
        "gap": round(gap, 6),
    }
    return anchor, rows, prompts


def _conversation(kind: str, task: str, names: Sequence[str], chance: random.Random) -> Messages:
    messages: Messages = [
        {
            "role": "system",
            "content": "You are an agent. Follow the policy.\n" + "Be careful. " * 9,
        },
        {"role": "user", "content": f"Please take care of {task}: look everything up, then act."},
    ]
    for number, name in enumerate(names):
        status = chance.choice(["open", "paid", "cancelled", "flying"])
        seen = json.dumps(
            {
                "id": name,
                "status": status,
                "amount": chance.randrange(20, 900),
                "notes": "abc " * 30,
            }
        )
        if kind == "tools":
            call = {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": "get_details", "arguments": json.dumps({"number": number})},
            }
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": seen})
        else:
            said = f"Let me look.\n```bash\ncat part_{number}.txt\n```"
            messages.append({"role": "assistant", "content": said})
            messages.append({"role": "user", "content": f"<output>\n{seen}\n</output>"})
    return messages


def _target(kind: str, name: str, chance: random.Random) -> tuple[str, str]:
    """Return the message that came next, and the part of it that acts."""
    amount = str(chance.randrange(10, 99))
    if kind == "tools":
        inside = f'{{"id": "{name}", "amount": {amount}}}'
        return f'<tool_call>\n{{"name": "update", "arguments": {inside}}}\n</tool_call>', inside
    command = f"sed -i s/{amount}/0/ {name}"
    return f"Now I change it.\n```bash\n{command}\n```", command


def _pieces(target: str, action: str, prompt: str, needed: str) -> list[list[Any]]:
    # The same chance for every prompt, so that they differ in what they hold and in little else.
    chance = random.Random(target)
    start, end = target.index(action), target.index(action) + len(action)
    at = target.index(needed)
    pieces: list[list[Any]] = []
    for match in _WORD.finditer(target):
        here = match.end() - 1
        mark = "action" if start <= here < end else ""
        nats, missing = chance.uniform(0.02, 0.4), chance.uniform(1.0, 8.0)
        if at <= here < at + len(needed):
            mark = "needed"
            nats += 0.0 if needed in prompt else missing
        else:
            nats += 60.0 / len(prompt)
        pieces.append([match.group(), round(nats, 4), mark])
    return pieces


def _text(messages: Messages) -> str:
    return json.dumps(messages)


def _tokens(messages: Messages) -> int:
    return len(_text(messages)) // 4


def _floor(messages: Messages) -> Messages:
    return [*messages[:2], *messages[-4:]]


def _room(messages: Messages, keep: float) -> int:
    floor = _tokens(_floor(messages))
    return floor + int(keep * (_tokens(messages) - floor))


def _newest(messages: Messages, keep: float) -> Messages:
    for start in range(2, len(messages), 2):
        left = [*messages[:2], *messages[start:]]
        if _tokens(left) <= _room(messages, keep):
            return left
    return _floor(messages)


def _with_markers(messages: Messages, keep: float) -> Messages:
    left = _newest(messages, keep / 2)
    gone = len(messages) - len(left)
    names = re.findall(r'"id\\*": \\*"(\w+)', _text(messages[2 : 2 + gone]))
    kept = names[: max(1, int(keep * 2 * len(names)))]
    note = f"\n\n[steps 1 to {gone // 2} elided: {', '.join(kept)}]"
    return [left[0], {**left[1], "content": left[1]["content"] + note}, *left[2:]]


def _masked(messages: Messages, _: float) -> Messages:
    return [
        {**one, "content": "[result removed to save space]"}
        if place % 2 and 1 < place < len(messages) - 6
        else one
        for place, one in enumerate(messages)
    ]


def _every_third(messages: Messages, _: float) -> Messages:
    left = list(messages[:2])
    for place in range(2, len(messages), 2):
        if place % 8 == 2 or place >= len(messages) - 4:
            left += messages[place : place + 2]
    return left


METHODS: dict[str, Callable[[Messages, float], Messages]] = {
    "newest": _newest,
    "forms_now": _with_markers,
    "masking": _masked,
    "commands_first": _masked,
    "paper": lambda messages, keep: _every_third(messages[:-6], keep) + messages[-6:],
    "langchain": _masked,
    "litellm": _newest,
}
