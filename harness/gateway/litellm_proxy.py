"""LiteLLM's released proxy with `agora proxy` as its compressor, as a process on loopback.

It has requirements of its own, so it runs from an environment of its own: `AGORA_LITELLM` names
its executable; otherwise the one on the path is taken.
"""

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from harness.gateway.cached_upstream import lifespan
from harness.gateway.loopback import free_port

KEY = "sk-proxy-test"
START_SECONDS = 600.0


def executable() -> str | None:
    """Return where the proxy is, if it is anywhere."""
    return os.environ.get("AGORA_LITELLM") or shutil.which("litellm")


def configuration(upstream: str, compressor: str) -> dict[str, Any]:
    """Return the proxy's configuration; the guardrail is all that an operator adds."""
    chat = {"model": "openai/gpt-4o", "api_base": f"{upstream}/v1", "api_key": "sk-up"}
    claude = {"model": "anthropic/claude-sonnet-4-5", "api_base": upstream, "api_key": "sk-up"}
    guardrail = {
        "guardrail": "headroom",
        "mode": "pre_call",
        "default_on": True,
        "api_base": compressor,
        "unreachable_fallback": "fail_open",
    }
    return {
        "model_list": [
            {"model_name": "gpt-4o", "litellm_params": chat},
            {"model_name": "claude-sonnet-4-5", "litellm_params": claude},
        ],
        "guardrails": [{"guardrail_name": "agora", "litellm_params": guardrail}],
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"telemetry": False, "num_retries": 0},
    }


@contextmanager
def proxy(config: dict[str, Any], folder: Path) -> Iterator[str]:
    """Run the proxy and give its address."""
    command = executable()
    assert command is not None, "LiteLLM's proxy is not installed"
    port = free_port()
    file = folder / "litellm.yaml"
    # JSON is YAML.
    file.write_text(json.dumps(config), encoding="utf-8")
    log = (folder / "litellm.log").open("wb")
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1", "PYTHONPATH": ""}
    started = subprocess.Popen(
        [command, "--config", str(file), "--host", "127.0.0.1", "--port", str(port)],
        env={**os.environ, **quiet},
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{url}/health/liveliness", started)
        yield url
    finally:
        started.terminate()
        started.wait(20)
        log.close()


def _wait_for(url: str, started: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        assert started.poll() is None, "LiteLLM's proxy did not start"
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - loopback
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError("LiteLLM's proxy did not start in time")


@dataclass
class Asked:
    """An application before `/v1/compress` that keeps what was asked of it."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = bool(message.get("more_body"))
        self.bodies.append(json.loads(body))
        async with (
            aiohttp.ClientSession() as client,
            client.post(self.url + scope["path"], data=body) as answer,
        ):
            status, said = answer.status, await answer.read()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": said})
