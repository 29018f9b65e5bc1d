"""LiteLLM's released proxy with AGORA, set up by the lines of its page, and its requests compared.

    AGORA_LITELLM=/path/to/litellm python -m benchmarks.litellm_proxy --calls 200

The proxy has requirements of its own, so it runs from an environment of its own. Both ways of
docs/how-to/litellm.md are tried, with the lines printed there: the guardrail that asks
`agora proxy`, and the callback. Agents of made-up conversations call the proxy with OpenAI's
client, streamed and not. The upstream has to get the same messages that the library makes of the
conversation or, with the guardrail, of the rows that the proxy passes to it.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import openai
import yaml

from agora import Compressor
from agora.rows import compress_rows
from harness.gateway.cached_upstream import lifespan
from harness.gateway.histories import chat
from harness.gateway.loopback import free_port, serving
from harness.gateway.strict_upstream import StrictUpstream
from tests.proxy.running import proxy as agora_proxy

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/how-to/litellm.md"
MODEL, KEY = "gpt-4o", "sk-proxy-test"
START_SECONDS = 600.0


class Asked:
    """An application in front of `/v1/compress` that stores the last body."""

    def __init__(self, url: str) -> None:
        """Ask this address."""
        self.url = url
        self.rows: list[Any] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Forward a request."""
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = bool(message.get("more_body"))
        self.rows = json.loads(body)["messages"]
        async with (
            aiohttp.ClientSession() as client,
            client.post(self.url + scope["path"], data=body) as answer,
        ):
            status, text = answer.status, await answer.read()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": text})


@contextmanager
def litellm(config: dict[str, Any], upstream: str, folder: Path) -> Iterator[str]:
    """Run LiteLLM's proxy with an operator's lines in its configuration; yield its address."""
    command = os.environ.get("AGORA_LITELLM") or shutil.which("litellm")
    if command is None:
        sys.exit("LiteLLM's proxy is not installed; name it in AGORA_LITELLM")
    deployment = {"model": f"openai/{MODEL}", "api_base": f"{upstream}/v1", "api_key": "sk-up"}
    whole = {
        "model_list": [{"model_name": MODEL, "litellm_params": deployment}],
        "general_settings": {"master_key": KEY},
        **config,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
    port = free_port()
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1"}
    with (folder / "litellm.log").open("wb") as log:
        process = subprocess.Popen(
            [command, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **quiet, "PYTHONPATH": str(ROOT / "src")},
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + START_SECONDS
    try:
        while True:
            try:
                with urllib.request.urlopen(f"{url}/health/liveliness", timeout=2):  # noqa: S310
                    break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    sys.exit((folder / "litellm.log").read_text(encoding="utf-8")[-2_000:])
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def by_library(body: dict[str, Any], rows: list[Any] | None, compressor: Compressor) -> list[Any]:
    """Return the library's messages for a conversation, or for some of its rows."""
    messages: list[Any] = body["messages"]
    if rows is None:
        made: list[Any] = compressor.compress(messages, model=MODEL, tools=body["tools"]).messages
        return made
    new = compress_rows(compressor, rows, model=MODEL).rows
    texts = {row["tool_call_id"]: row["content"] for row in new if row["role"] == "tool"}
    return [
        {**m, "content": texts.get(m["tool_call_id"], m["content"])} if m["role"] == "tool" else m
        for m in messages
    ]


async def play(
    base: str, calls: int, upstream: StrictUpstream, compressor: Compressor, door: Asked | None
) -> Counter[str]:
    """Send the calls one after another, and compare each."""
    client = openai.AsyncOpenAI(api_key=KEY, base_url=f"{base}/v1", max_retries=0, timeout=60)
    seen = Counter(calls=calls, errors=0, same=0, edited=0)
    for n in range(calls):
        body = chat(2 + n % 40, 900, seed=n // 40)
        if door is not None:
            door.rows = []
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
        rows = door.rows if door is not None else None
        wanted = by_library(body, rows, compressor)
        keys = ("role", "content", "tool_call_id", "tool_calls")
        seen["same"] += [[m.get(k) for k in keys] for m in sent] == [
            [m.get(k) for k in keys] for m in wanted
        ]
        seen["edited"] += sent != body["messages"] and "context compressor" in json.dumps(sent)
    return seen


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=200, help="of each way")
    calls = parser.parse_args().calls
    printed = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    guardrails, callback = (yaml.safe_load(text) for kind, text in printed if kind == "yaml")
    module = next(text for _, text in printed if "agora_logger" in text)
    upstream = StrictUpstream()
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as two,
        serving(upstream) as up,
        agora_proxy(up, compression={"min_tokens": 4_096}) as running,
    ):
        door = Asked(f"http://127.0.0.1:{running.port}")
        with serving(door) as url:
            guardrails["guardrails"][0]["litellm_params"]["api_base"] = url
            with litellm(guardrails, up, Path(one)) as base:
                by_rows = asyncio.run(play(base, calls, upstream, Compressor(), door))
        print(f"guardrail: {json.dumps(by_rows)}", flush=True)
        Path(two, "agora_callback.py").write_text(module, encoding="utf-8")
        with litellm(callback, up, Path(two)) as base:
            by_call = asyncio.run(play(base, calls, upstream, Compressor(), None))
        print(f"callback: {json.dumps(by_call)}", flush=True)
    sys.exit(min(by_rows["same"], by_call["same"]) < calls)


if __name__ == "__main__":
    main()
