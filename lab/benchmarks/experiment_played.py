"""An experiment played through a running gateway: the desk's reader, three arms, outcomes posted.

    python -m lab.benchmarks.experiment_played --rows FILE --tasks 200 --arms everything agora
    python -m lab.benchmarks.experiment_played --rows OTHER --tasks 200 --arms floor

Each conversation at the desk goes call by call through a gateway in mode `experiment` to an
upstream that answers as the reader does and bills by a prefix cache, and its reward is posted as
the outcome. Every task is played in every arm: it is given a name that the gateway draws into the
arm. `floor` is the same gateway with a budget of nothing at every call. Rows are what the gateway
counted, with what was posted; the same command goes on where it was stopped.
`python -m benchmarks.experiment_played` draws experiments from them.
"""

import argparse
import http.client
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

from harness.gateway.cached_upstream import lifespan
from harness.gateway.loopback import config_for, gateway, serving

from agora.core.budget import Budget
from agora.core.tokens import EstimatedTokens
from agora.experiment.assignment import MOST_SHARE, Arm, Draw, arm_of
from agora.experiment.conversations import Conversation
from agora.experiment.store import read_account
from agora.gateway.config import Compression, Experiment, Tenants
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.tenants import tenant_of
from agora_lab.backbones.base import message_text
from agora_lab.backbones.readers import reader
from agora_lab.environments.desk import WORLD, Desk, extract

MODEL = "gpt-5"
"""By its price sheet bills are made and edits decided on: a cached token costs a tenth."""
KEY = "sk-loopback"
SECRET = "the same for all"  # noqa: S105
_MINIMUM_PREFIX, _BLOCK = 1_024, 128
_COUNTER = EstimatedTokens()
_CALL = re.compile(r"[a-z_]{1,40} \{.*\}", re.DOTALL)
ARMS = {"everything": Arm.EVERYTHING, "agora": Arm.AGORA, "floor": Arm.AGORA}
"""Into which arm of its gateway each is drawn."""
FLOOR: dict[str, Any] = {
    "scorer": "recency",
    "lines": False,
    "keep_ratio": 0.0,
    "schedule": "every_call",
}


@lru_cache(maxsize=50_000)
def tokens_of(message: str) -> int:
    """Return what an upstream counts for a message."""
    return 4 + _COUNTER.count(message)


class ReadingUpstream:
    """Answers chats as the desk's reader does, and bills by the prefix it had of the same agent."""

    def __init__(self) -> None:
        """Start with nothing cached."""
        self.cached: dict[str, list[str]] = {}
        self.reader = reader("desk")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one call."""
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        pieces, more = [], True
        while more:
            message = await receive()
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
        told = json.dumps(self.answer(json.loads(b"".join(pieces)))).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": told})

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the reader's next call, or what it says, with the usage."""
        sent = [json.dumps(message) for message in body["messages"]]
        had = self.cached.get(body["user"], [])
        same = next((at for at, (a, b) in enumerate(zip(sent, had)) if a != b), len(had))  # noqa: B905
        sizes = [tokens_of(message) for message in sent]
        known = sum(sizes[: min(same, len(sent))])
        self.cached[body["user"]] = sent
        text = self.reader.answer(body["messages"]).text
        action = extract(text)
        said: dict[str, Any] = {"role": "assistant", "content": text}
        if _CALL.fullmatch(action):
            name, _, arguments = action.partition(" ")
            function = {"name": name, "arguments": arguments}
            key = f"call_{len(body['messages'])}_{len(had)}"
            said["content"] = None
            said["tool_calls"] = [{"id": key, "type": "function", "function": function}]
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": body["model"],
            "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": sum(sizes),
                "completion_tokens": tokens_of(text),
                "prompt_tokens_details": {
                    "cached_tokens": known // _BLOCK * _BLOCK if known >= _MINIMUM_PREFIX else 0
                },
            },
        }


def floor_only(settings: EditorSettings, *args: Any) -> Any:
    """Return the gateway's compressor with a budget of nothing: no setting goes as far."""
    return replace(_compressor(settings, *args), budget=Budget(limit=0))


_compressor = EditorSettings.compressor


def play(address: str, name: str, desk: Desk, task: str) -> tuple[float, int, str]:
    """Return the reward of a task played through a gateway, its calls, and its id there."""
    start = desk.reset(task)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": WORLD.instructions},
        {"role": "user", "content": f"{start.task}\n\n{start.observation}"},
    ]
    connection = http.client.HTTPConnection(address, timeout=120)
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    reward, calls = 0.0, 0
    while calls < WORLD.most_steps:
        body = {"model": MODEL, "user": name, "messages": messages}
        told = json.dumps(body).encode()
        connection.request(
            "POST", "/v1/chat/completions", told, {**headers, "x-agora-conversation": name}
        )
        answer = connection.getresponse()
        said = json.loads(answer.read())["choices"][0]["message"]
        conversation_id = answer.headers["x-agora-conversation"]
        calls += 1
        outcome = desk.step(extract(message_text(said)))
        reward = outcome.reward
        if outcome.terminated:
            break
        seen: dict[str, Any] = {"role": "user", "content": outcome.observation}
        if said.get("tool_calls"):
            key = said["tool_calls"][0]["id"]
            seen = {"role": "tool", "tool_call_id": key, "content": outcome.observation}
        messages += [said, seen]
    posted = json.dumps({"conversation": conversation_id, "outcome": reward}).encode()
    connection.request("POST", "/v1/agora/outcome", posted, headers)
    if json.loads(connection.getresponse().read()) != {"counted": True}:
        raise ValueError(f"the outcome of {name} was not counted")
    return reward, calls, conversation_id


def named_for(draw: Draw, tenant: str, task: str, arm: Arm) -> str:
    """Return a name of a conversation that the gateway draws into an arm; never one of before."""
    begun = time.time_ns()
    names = (f"{task}-{begun}-{n}" for n in range(1_000))
    return next(
        name for name in names if arm_of(draw.id_of(tenant, name.encode()), MOST_SHARE) is arm
    )


@contextmanager
def running(up: str, folder: Path, *, floor: bool) -> Iterator[tuple[str, Draw, str]]:
    """Run a gateway, and give its address, its draw and the tenant."""
    settings: dict[str, Any] = {"min_tokens": 0, **FLOOR} if floor else {}
    config = config_for(
        up,
        compression=Compression(mode="experiment", **settings),
        # Rows are read off conversations that are open, and nothing stops before all are played.
        experiment=Experiment(
            folder=str(folder),
            share=MOST_SHARE,
            idle_minutes=10_080,
            stop_when=("dollars > +9999%",),
        ),
        tenants=Tenants(stand_down=not floor),
    )
    tenant = tenant_of(
        [(b"authorization", f"Bearer {KEY}".encode())], config.tenants, SECRET.encode()
    )
    with gateway(config) as (url, app):
        trial = app.forwarder.trial
        assert trial is not None
        yield url.removeprefix("http://"), trial.draw, tenant


def main() -> None:
    """Play what is missing, and write the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--arms", nargs="+", choices=sorted(ARMS), default=["everything", "agora"])
    chosen = parser.parse_args()
    floor = "floor" in chosen.arms
    if floor and len(chosen.arms) > 1:
        parser.error("floor has a gateway of its own: play it by itself")
    os.environ["AGORA_TENANT_SECRET"] = SECRET
    splits = WORLD.splits()
    tasks = [*splits["test"], *splits["train"]][: chosen.tasks]
    journal = chosen.rows.with_suffix(".played.jsonl")
    folder = chosen.rows.with_suffix(".folder")
    played = read(journal)
    done = {(row["task"], row["arm"]) for row in played}
    desk, changed = Desk(), patch.object(EditorSettings, "compressor", floor_only)
    with (
        changed if floor else nullcontext(),
        serving(ReadingUpstream()) as up,
        running(up, folder, floor=floor) as (address, draw, tenant),
    ):
        for task, arm in product(tasks, chosen.arms):
            if (task, arm) in done:
                continue
            began = time.monotonic()
            name = named_for(draw, tenant, task, ARMS[arm])
            reward, calls, conversation_id = play(address, name, desk, task)
            row = {"task": task, "arm": arm, "id": conversation_id, "reward": reward}
            with journal.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            took = time.monotonic() - began
            print(f"{task} {arm}: {reward:.3f}, {calls} calls, {took:.1f} s", flush=True)
    counted = read_account(folder).open
    with chosen.rows.open("w", encoding="utf-8") as file:
        for row in read(journal):
            found = counted.get(row["id"], Conversation()).as_json()
            told = {"task": row["task"], "arm": row["arm"], "posted": row["reward"], **found}
            file.write(json.dumps({**told, "arm": row["arm"]}) + "\n")


def read(journal: Path) -> list[dict[str, Any]]:
    """Return the conversations that were played to their end."""
    if not journal.exists():
        return []
    return [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
