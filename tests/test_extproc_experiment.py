"""The filter in an experiment: the gateway's arms, one edited, both counted in the same files."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="the extra extproc is not installed")
pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

from agora.experiment.assignment import Arm, Draw, arm_of
from agora.experiment.store import read_account, resume, stop
from agora.extproc.decide import Decider
from agora.extproc.messages import (
    HeaderMap,
    HeaderValue,
    HttpBody,
    HttpHeaders,
    ProcessingMode,
    ProcessingRequest,
)
from agora.extproc.stream import Stream
from agora.gateway.config import Config, Experiment, Limits, Log, Tenants, parse_config
from agora.gateway.forwarding.arms import NoSecretError
from agora.gateway.routing.tenants import tenant_of
from harness.envoy import SETTINGS, SHIPPED, envoy, executable, stack
from harness.gateway.histories import chat
from harness.gateway.loopback import free_port, serving
from harness.gateway.strict_upstream import StrictUpstream

SECRET = "a secret that replicas share"  # noqa: S105
USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
WAYS = [ProcessingMode.BUFFERED, ProcessingMode.FULL_DUPLEX_STREAMED]


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGORA_TENANT_SECRET", SECRET)


def configured(folder: Path, share: float = 0.5) -> Config:
    text = "upstreams = []\n[compression]\nmin_tokens = 200\nmode = 'experiment'\n[experiment]\n"
    return replace(
        parse_config(f"{text}folder = '{folder}'\n"),
        experiment=Experiment(folder=str(folder), share=share),
        limits=Limits(compress_deadline_ms=60_000, restore_deadline_ms=60_000),
        log=Log(requests=False),
    )


@contextmanager
def deciding(folder: Path, share: float = 0.5) -> Iterator[Decider]:
    decider = Decider.of(configured(folder, share))
    decider.start()
    try:
        yield decider
    finally:
        decider.stop()


def headers_of(pairs: dict[str, str]) -> HttpHeaders:
    found = [HeaderValue(key=key, raw_value=value.encode()) for key, value in pairs.items()]
    return HttpHeaders(headers=HeaderMap(headers=found))


def through(
    decider: Decider, name: str, body: bytes, way: int, *, status: str = "200", **more: str
) -> tuple[bytes, dict[str, str]]:
    """Return what the upstream gets, and the headers that the client gets besides."""
    told = {":method": "POST", ":path": "/v1/chat/completions", "authorization": "Bearer sk-1"}
    told |= {"content-length": str(len(body)), "x-agora-conversation": name, **more}
    first = ProcessingRequest(request_headers=headers_of(told))
    first.protocol_config.request_body_mode = way
    said = json.dumps({"choices": [], "usage": USAGE}).encode()
    requests = [
        first,
        ProcessingRequest(request_body=HttpBody(body=body, end_of_stream=True)),
        ProcessingRequest(response_headers=headers_of({":status": status})),
        ProcessingRequest(response_body=HttpBody(body=said, end_of_stream=True)),
    ]
    stream, sent, got = Stream(decider), body, {}

    async def run() -> None:
        nonlocal sent
        pieces: list[bytes] = []
        async for answer in stream.answers(coming()):
            if answer.WhichOneof("response") == "request_body":
                mutation = answer.request_body.response.body_mutation
                kind = mutation.WhichOneof("mutation")
                if kind == "body":
                    sent = mutation.body
                elif kind == "streamed_response":
                    pieces.append(mutation.streamed_response.body)
            if answer.WhichOneof("response") == "response_headers":
                for each in answer.response_headers.response.header_mutation.set_headers:
                    got[each.header.key] = each.header.raw_value.decode()
        sent = b"".join(pieces) or sent
        if stream.deciding is not None:
            await stream.deciding
            await asyncio.sleep(0)

    async def coming() -> AsyncIterator[ProcessingRequest]:
        for request in requests:
            yield request

    asyncio.run(run())
    return sent, got


def named(arm: Arm, share: float = 0.5) -> str:
    tenant = tenant_of([(b"authorization", b"Bearer sk-1")], Tenants(), SECRET.encode())
    draw = Draw("experiment", SECRET.encode())
    names = (f"task-{n}" for n in range(1_000))
    return next(n for n in names if arm_of(draw.id_of(tenant, n.encode()), share) is arm)


@pytest.mark.parametrize("way", WAYS)
def test_one_arm_is_edited_the_other_goes_on_as_it_came_and_both_are_counted(
    tmp_path: Path, way: int
) -> None:
    first, long = json.dumps(chat(0)).encode(), json.dumps(chat(40)).encode()
    with deciding(tmp_path) as decider:
        for arm in (Arm.AGORA, Arm.EVERYTHING):
            assert through(decider, named(arm), first, way)[0] == first
            sent, got = through(decider, named(arm), long, way, **{"x-agora-outcome": "0.5"})
            assert (sent == long) == (arm is Arm.EVERYTHING)
            assert arm_of(got["x-agora-conversation"], 0.5) is arm
        calls = decider.meter.snapshot().by("agora_experiment_calls_total", "arm")
    account = read_account(tmp_path)

    assert calls == {"agora": 2, "everything": 2}
    assert {each.arm for each in account.open.values()} == {"agora", "everything"}
    for each in account.open.values():
        assert (each.calls, each.answered, each.prompt_tokens) == (2, 2, 200)
        assert (each.born, each.affected, each.outcome) == (True, True, 0.5)
        assert each.dollars > 0
        assert each.waited_ms > 0


def test_what_waits_and_what_is_stopped_goes_on_as_it_came(tmp_path: Path) -> None:
    long = json.dumps(chat(40)).encode()
    way = WAYS[0]
    with deciding(tmp_path, share=0.05) as decider:
        assert decider.trial is not None
        sent, got = through(decider, named(Arm.WAITING, 0.05), long, way)
        assert (sent, got["x-agora-untouched"]) == (long, "experiment_waiting")
        stop(tmp_path, "looked at")
        decider.trial.tick()
        sent, got = through(decider, named(Arm.AGORA, 0.05), long, way)
        assert (sent, got["x-agora-untouched"]) == (long, "experiment_stopped")
        assert "x-agora-conversation" not in got
        resume(tmp_path)
        decider.trial.tick()
        assert through(decider, named(Arm.AGORA, 0.05), long, way)[0] != long


def test_a_refused_call_is_counted_as_an_error_and_what_cannot_be_read_not_at_all(
    tmp_path: Path,
) -> None:
    with deciding(tmp_path) as decider:
        long = json.dumps(chat(40)).encode()
        through(decider, named(Arm.EVERYTHING), long, WAYS[0], status="429")
        through(decider, "no gzip", b"x" * 4_000, WAYS[0], **{"content-encoding": "gzip"})
    (found,) = read_account(tmp_path).open.values()

    assert (found.calls, found.answered, found.errors) == (1, 0, {"429": 1})


def test_without_a_secret_the_filter_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGORA_TENANT_SECRET")
    with pytest.raises(NoSecretError):
        Decider.of(configured(tmp_path))


@pytest.mark.skipif(executable() is None, reason="Envoy is not installed")
def test_a_real_envoy_sends_each_arm_what_it_gets(tmp_path: Path) -> None:
    import urllib.request

    upstream, folder = StrictUpstream(), tmp_path / "figures"
    settings = SETTINGS.replace("[compression]\n", '[compression]\nmode = "experiment"\n')
    settings += f'\n[experiment]\nfolder = "{folder}"\nshare = 0.5\n'
    body = json.dumps(chat(40)).encode()
    got: dict[Arm, bytes] = {}
    with (
        serving(upstream) as up,
        stack(tmp_path, up, up, settings, message_timeout="90s") as running,
    ):
        for arm in (Arm.AGORA, Arm.EVERYTHING):
            head: dict[str, Any] = {"content-type": "application/json"}
            head |= {"authorization": "Bearer sk-1", "x-agora-conversation": named(arm)}
            url = f"{running.url}/v1/chat/completions"
            asked = urllib.request.Request(url, body, head)  # noqa: S310 - loopback
            with urllib.request.urlopen(asked, timeout=120) as answer:  # noqa: S310
                answer.read()
                assert arm_of(answer.headers["x-agora-conversation"], 0.5) is arm
            got[arm] = upstream.received[-1].body
        until = time.monotonic() + 60
        while not (folder / "tally.json").exists() and time.monotonic() < until:
            time.sleep(0.2)

    assert got[Arm.EVERYTHING] == body
    assert len(got[Arm.AGORA]) < len(body)
    assert {each.arm for each in read_account(folder).open.values()} == {"agora", "everything"}


@pytest.mark.skipif(executable() is None, reason="Envoy is not installed")
def test_a_canary_gets_its_share_of_conversations_and_those_who_ask_for_it(tmp_path: Path) -> None:
    import urllib.request

    import yaml

    port, admin = free_port(), free_port()
    config = yaml.safe_load(SHIPPED.with_name("canary.yaml").read_text(encoding="utf-8"))
    config["admin"]["address"]["socket_address"]["port_value"] = admin
    static = config["static_resources"]
    static["listeners"][0]["address"]["socket_address"]["port_value"] = port
    stable, canary = StrictUpstream(), StrictUpstream()
    body = json.dumps(chat(1)).encode()

    def is_canary(**headers: str) -> bool:
        told = {"content-type": "application/json", "authorization": "Bearer sk-1", **headers}
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        before = len(canary.received)
        asked = urllib.request.Request(url, body, told)
        with urllib.request.urlopen(asked, timeout=120) as answer:  # noqa: S310
            answer.read()
        return len(canary.received) > before

    with serving(stable) as one, serving(canary) as other:
        for cluster, url in zip(static["clusters"], (one, other), strict=True):
            (end,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
            end["endpoint"]["address"]["socket_address"]["port_value"] = int(url.rpartition(":")[2])
        with envoy(config, tmp_path):
            asked = {is_canary(**{"x-agora-canary": "1"}) for _ in range(5)}
            drawn = [
                {is_canary(**{"x-agora-conversation": f"task-{n}"}) for _ in range(3)}
                for n in range(100)
            ]

    assert asked == {True}
    assert all(len(each) == 1 for each in drawn), "a conversation went back and forth"
    assert 2 <= sum(each == {True} for each in drawn) <= 25
