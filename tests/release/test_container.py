import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from socket import create_server

import pytest

from tests.release.container import CONTAINERFILE, ROOT, Image, build, copy, instructions
from tests.release.first_minutes import Provider

LISTENS_SECONDS = 60


def of_context(folder: Path) -> Path:
    """Return a folder with what the first stage copies, and nothing else."""
    image = Image(folder, work="/src")
    for word, rest in instructions(CONTAINERFILE.read_text(encoding="utf-8")):
        if word == "COPY" and not rest.startswith("--from="):
            copy(image, rest.split(), {})
    return folder / "src"


def test_what_the_containerfile_copies_is_enough_to_build_the_wheel(tmp_path: Path) -> None:
    program = "import hatchling.build; print(hatchling.build.build_wheel('.'))"

    built = subprocess.run(
        [sys.executable, "-c", program], cwd=of_context(tmp_path), capture_output=True, text=True
    )

    assert built.returncode == 0, built.stderr
    assert "agora_context-" in built.stdout


def test_every_extra_that_the_containerfile_installs_is_one_of_ours() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [run] = [rest for word, rest in instructions(CONTAINERFILE.read_text()) if word == "RUN"]
    extras = run.partition("'.[")[2].partition("]'")[0].split(",")

    assert set(extras) <= project["optional-dependencies"].keys()
    assert {"cli", "gateway"} <= set(extras)


@pytest.fixture
def provider() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def can_mount() -> bool:
    """Tell whether this machine lets us have a root of our own."""
    alone = ["--mount"] if os.geteuid() == 0 else ["-Urm"]
    return shutil.which("unshare") is not None and (
        subprocess.run(["unshare", *alone, "mount", "--bind", "/usr", "/mnt"]).returncode == 0
    )


@pytest.mark.long
def test_the_image_is_built_in_a_clean_root_and_its_gateway_serves_from_there(
    tmp_path: Path, provider: str
) -> None:
    if not can_mount():
        pytest.skip("nothing can be mounted here: no root, and no user namespaces")
    image = build(tmp_path / "image")
    assert image.user == "10001:10001"
    assert not (image.root / "src").exists()

    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = image.root / "etc" / "agora" / "gateway.toml"
    settings.parent.mkdir()
    settings.write_text(
        f'[listen]\nhost = "127.0.0.1"\nport = {port}\n'
        f'[[upstreams]]\nname = "fake"\nbase_url = "{provider}/v1"\nformats = ["openai"]\n'
        'models = ["*"]\n'
    )
    command = image.runs(*image.entrypoint, *image.command)
    with (tmp_path / "log").open("wb") as log:
        gateway = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/readyz", gateway, tmp_path / "log")
        body = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Hello."}]}
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json", "authorization": "Bearer made-up"},
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310 - loopback
            assert "Found it." in answer.read().decode()
        if os.geteuid() == 0:
            assert Path(f"/proc/{gateway.pid}").stat().st_uid == 10001
    finally:
        gateway.send_signal(getattr(signal, image.stop_signal))
        gateway.wait(30)
    assert "Application shutdown complete" in (tmp_path / "log").read_text()


def wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + LISTENS_SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=1):  # noqa: S310 - loopback
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(log.read_text())
