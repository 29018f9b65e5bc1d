import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agora.wrapping.gateway import Gateway, NotStartedError
from agora.wrapping.plan import Plan, Upstream
from agora.wrapping.settings import tables_for

PLAN = Plan(upstreams=(Upstream("openai", "http://127.0.0.1:1/v1", chosen=True),))


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(tables_for({}, PLAN, {}), tmp_path, os.environ, tmp_path / "log") as made:
        made.start()
        yield made


def answers(gateway: Gateway) -> bool:
    with urllib.request.urlopen(f"{gateway.url}/livez", timeout=30) as answer:  # noqa: S310
        return bool(answer.read() == b"ok\n")


def eventually(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_gateway_that_is_killed_is_there_again_on_the_same_port(gateway: Gateway) -> None:
    url, pid = gateway.url, gateway.pid
    assert answers(gateway)
    assert pid is not None

    os.kill(pid, signal.SIGKILL)

    # Not refused in between: the connection waits for the next process.
    assert answers(gateway)
    assert gateway.url == url
    assert gateway.pid != pid
    assert gateway.restarts == 1


def test_it_ends_with_the_block(tmp_path: Path) -> None:
    with Gateway(tables_for({}, PLAN, {}), tmp_path, os.environ, tmp_path / "log") as gateway:
        gateway.start()
        pid = gateway.pid
        assert pid is not None
    assert not is_alive(pid)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{gateway.port}/livez", timeout=5)


def test_it_ends_when_whoever_started_it_is_killed(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        made = Gateway(tables_for({}, PLAN, {}), tmp_path, os.environ, tmp_path / "log")
        made.start()
        (tmp_path / "pid").write_text(str(made.pid))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    pid = int((tmp_path / "pid").read_text())

    assert eventually(lambda: not is_alive(pid))


def test_no_key_of_the_environment_reaches_its_process(tmp_path: Path) -> None:
    environment = {**os.environ, "ANTHROPIC_API_KEY": "sk-ant-madeup"}
    with Gateway(tables_for({}, PLAN, {}), tmp_path, environment, tmp_path / "log") as gateway:
        gateway.start()
        assert b"sk-ant-madeup" not in Path(f"/proc/{gateway.pid}/environ").read_bytes()


def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        Gateway({"upstreams": 3}, tmp_path, os.environ, tmp_path / "log") as gateway,
        pytest.raises(NotStartedError, match="upstreams"),
    ):
        gateway.start()


def test_one_that_dies_again_and_again_is_given_up(gateway: Gateway) -> None:
    for _ in range(20):
        if gateway.pid is not None and is_alive(gateway.pid):
            os.kill(gateway.pid, signal.SIGKILL)
        time.sleep(0.05)
        if gateway.given_up:
            break
    assert eventually(lambda: gateway.given_up, 5)
