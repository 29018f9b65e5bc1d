"""LiteLLM's released proxy with `agora proxy` as its compressor: real requests, compared in full.

    AGORA_LITELLM=/path/to/litellm python -m benchmarks.litellm_proxy --calls 200
    python -m benchmarks.litellm_proxy --out benchmarks/results/litellm-proxy.json

Agents of made-up conversations call the proxy with OpenAI's client, streamed and not, with tools.
What the proxy asks `/v1/compress` is kept; what its upstream gets has to be the conversation with
those rows replaced by what the library makes of them.
"""

import argparse
import asyncio
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import openai

from agora.compressor import Compressor
from agora.rows import compress_rows
from harness.gateway.histories import chat
from harness.gateway.litellm_proxy import KEY, Asked, configuration, proxy
from harness.gateway.loopback import serving
from harness.gateway.results import Figures, put
from harness.gateway.strict_upstream import StrictUpstream
from tests.proxy.running import proxy as compressor

MODEL = "gpt-4o"


def replaced(original: list[Any], rows: list[Any], compressor: Compressor) -> list[Any]:
    """Return a conversation with the rows that were sent put back as the library returns them."""
    told = compress_rows(compressor, rows, model=MODEL).rows
    texts = {row["tool_call_id"]: row["content"] for row in told if row["role"] == "tool"}
    return [
        {**m, "content": texts.get(m["tool_call_id"], m["content"])} if m["role"] == "tool" else m
        for m in original
    ]


async def play(base: str, calls: int, door: Asked, upstream: StrictUpstream, by: Any) -> Figures:
    """Send the calls one after another, and compare each."""
    client = openai.AsyncOpenAI(api_key=KEY, base_url=f"{base}/v1", max_retries=0, timeout=60)
    seen: Counter[str] = Counter()
    for n in range(calls):
        body = chat(2 + n % 40, 900, seed=n // 40)
        before = len(door.bodies)
        try:
            if n % 2:
                stream = await client.chat.completions.create(**body, stream=True)
                seen["streamed"] += bool([piece async for piece in stream])
            else:
                seen["whole"] += bool((await client.chat.completions.create(**body)).choices)
        except openai.OpenAIError:
            seen["errors"] += 1
            continue
        sent = json.loads(upstream.received[-1].body)["messages"]
        rows = door.bodies[-1]["messages"] if len(door.bodies) > before else []
        expected = replaced(body["messages"], rows, by) if rows else body["messages"]
        keys = ("role", "content", "tool_call_id", "tool_calls")
        same = [[m.get(k) for k in keys] for m in sent] == [
            [m.get(k) for k in keys] for m in expected
        ]
        seen["same"] += same
        seen["compressed"] += "elided" in json.dumps(sent)
    return {"calls": calls, "errors": 0, **seen}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--out", help="the file that the figures go into, too")
    asked = parser.parse_args()
    upstream = StrictUpstream()
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(upstream) as up,
        compressor(up, compression={"min_tokens": 1_000}) as running,
    ):
        door = Asked(f"http://127.0.0.1:{running.port}")
        by = Compressor(min_tokens=1_000)
        with serving(door) as url, proxy(configuration(up, url), Path(folder)) as base:
            figures = asyncio.run(play(base, asked.calls, door, upstream, by))
    print(json.dumps(figures))
    if asked.out:
        put(asked.out, "proxy", figures)


if __name__ == "__main__":
    main()
