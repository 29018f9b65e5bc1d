"""The AI SDK's own loop with our `prepareStep`, on node."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

from agora.gateway.config import Compression
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.scripted_upstream import ScriptedUpstream

EXAMPLE = Path(__file__).parents[2] / "examples" / "typescript" / "prepare_step.mjs"
PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "typescript.md"
MODULES = os.environ.get("AGORA_NODE", "")
"""A folder in which `npm install ai @ai-sdk/openai zod` was run."""


def test_the_page_shows_what_the_example_runs() -> None:
    shown = PAGE.read_text(encoding="utf-8").partition("```ts\n")[2].partition("```")[0]
    runs = EXAMPLE.read_text(encoding="utf-8")

    assert shown.count("\n") <= 11
    for line in shown.splitlines():
        line = line.replace('"http://127.0.0.1:8484/v1/compress"', "`${AGORA}/v1/compress`")
        assert line.replace('model: "gpt-5"', "model: MODEL") in runs


@pytest.mark.skipif(
    not MODULES or shutil.which("node") is None,
    reason="AGORA_NODE names no folder with the AI SDK, or there is no node",
)
def test_an_agent_of_the_ai_sdk_reads_to_the_end_with_shorter_prompts() -> None:
    upstream = ScriptedUpstream(steps=25)
    compression = Compression(min_tokens=1_000)
    with (
        serving(upstream) as up,
        gateway(config_for("http://127.0.0.1:9", compression=compression)) as (url, _),
        tempfile.TemporaryDirectory(dir=MODULES) as folder,
    ):
        program = Path(folder) / EXAMPLE.name
        program.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
        own = {"AGORA_URL": url, "OPENAI_BASE_URL": f"{up}/v1", "OPENAI_API_KEY": "sk-1"}
        ran = subprocess.run(
            ["node", str(program)],
            env={**os.environ, **own, "MODEL": "gpt-4o"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr[-2_000:]
    said = json.loads(ran.stdout)
    assert said["text"] == "42"
    assert said["steps"] == 26
    bodies = [request.body for request in upstream.received]
    assert b"elided" in bodies[-1]
    assert b"elided" not in bodies[0]
    whole = sum(len(body) for body in bodies[:1]) + 25 * 2_000
    assert len(bodies[-1]) < whole
