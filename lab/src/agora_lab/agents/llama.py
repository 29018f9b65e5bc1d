"""A real llama.cpp server on loopback, in a process of its own.

The package xllamacpp carries llama.cpp's server. In a child process its memory and threads end
with it, and it can be stopped whatever it is doing.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Self

from agora import MissingExtraError
from agora_lab.agents.base import BackboneError
from agora_lab.agents.client import ModelClient, Sampling


class LlamaServer:
    """A server that runs until it is closed, or until this process ends.

    >>> with LlamaServer(Path("smollm2.gguf")) as server:  # doctest: +SKIP
    ...     ModelClient(server.model, base_url=server.base_url).answer(messages)
    """

    def __init__(
        self,
        path: Path,
        *,
        port: int = 0,
        slots: int = 1,
        context_tokens: int = 8192,
        threads: int = 1,
        start_s: float = 120.0,
    ) -> None:
        """Start a server and wait until it has loaded the model.

        Args:
            path: A GGUF file.
            port: 0 for any free port.
            slots: How many answers are generated at once; also the most samples per request.
            context_tokens: Per slot.
            threads: On a busy machine one thread can be over ten times faster than two
                (lab/notebook/2026-11.md).
            start_s: How long loading may take.

        Raises:
            BackboneError: The server did not start; the error ends with its log.
        """
        self.model = path.stem
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        command = [sys.executable, "-m", __spec__.name, str(path)]
        command += [str(number) for number in (port, slots, context_tokens, threads)]
        # The server ends when this pipe closes, so it cannot outlive this process.
        self._child = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._child.stdout is not None  # noqa: S101 - a pipe was asked for
        timer = threading.Timer(start_s, self._child.kill)
        timer.start()
        address = self._child.stdout.readline().strip()
        timer.cancel()
        if not address:
            self._log.seek(0)
            log = self._log.read().decode("utf-8", "replace")[-600:]
            self.close()
            raise BackboneError(f"the llama.cpp server for {path}", f"did not start: {log}")
        self.base_url = f"{address}/v1"

    @property
    def pid(self) -> int:
        """The id of the server's process."""
        return self._child.pid

    def close(self) -> None:
        """Stop the server."""
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout, self._log):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LlamaModel(ModelClient):
    """A GGUF model with a server of its own."""

    def __init__(self, path: Path, *, sampling: Sampling | None = None, **server: Any) -> None:
        """Start the server.

        Raises:
            BackboneError: It did not start.
        """
        self.server = LlamaServer(path, **server)
        super().__init__(
            self.server.model,
            base_url=self.server.base_url,
            api_key="none",
            sampling=sampling,
            timeout_s=600,
            concurrency=server.get("slots", 1),
        )

    def close(self) -> None:
        """Close the connections and stop the server."""
        super().close()
        self.server.close()


def find_model(name: str) -> Path:
    """Return the GGUF file of a model.

    Raises:
        BackboneError: There is no such file.
    """
    path = Path(name)
    if path.suffix != ".gguf" or not path.is_file():
        raise BackboneError(f"llama:{name}", "names no GGUF file")
    return path


def main() -> None:
    """Serve on loopback until standard input closes; print the address first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path)
    for name in ("port", "slots", "context", "threads"):
        parser.add_argument(name, type=int)
    given = parser.parse_args()
    try:
        import xllamacpp
    except ImportError:
        parser.exit(1, f"{MissingExtraError('llama.cpp', 'llama', 'agora-lab')}\n")
    params = xllamacpp.CommonParams()
    params.model.path = str(given.path)
    # The server's name in answers: a name, not a local path.
    params.model_alias = {given.path.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = given.port
    params.n_parallel = given.slots
    params.n_ctx = given.context * given.slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = given.threads
    params.warmup = False
    params.ui = False
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        parser.exit(1, f"{error}\n")
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    # Not `return`: the server's threads may be in the middle of a prompt.
    os._exit(0)


if __name__ == "__main__":
    main()
