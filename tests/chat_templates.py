"""The chat templates of open models, taken from a source distribution and rendered as served.

They come with llama-cpp-python, under `vendor/llama.cpp/models/templates`. The distribution is
downloaded once, by its hash, into a cache folder: AGORA_CACHE, or `~/.cache/agora`. With
AGORA_OFFLINE=1 nothing is downloaded.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment

_REQUIREMENT = (
    "llama-cpp-python==0.3.36"
    " --hash=sha256:832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
)
_FOLDER = "/vendor/llama.cpp/models/templates/"
_NAME = "templates-0.3.36"
_SECONDS = 300

Message = dict[str, Any]
Form = Literal["wire", "no null", "parsed"]
"""How messages reach a template: as the wire has them; with empty text for no content; or with
the arguments of calls parsed as well. Servers do one or the other, and templates expect it."""
FORMS: tuple[Form, ...] = ("wire", "no null", "parsed")


class TemplatesMissingError(Exception):
    """The templates are neither in the cache nor to be had."""


def folder() -> Path:
    """Return the folder of the templates, downloaded if it has to be."""
    cache = Path(os.environ.get("AGORA_CACHE") or Path.home() / ".cache" / "agora")
    found = cache / _NAME
    if not found.is_dir():
        if os.environ.get("AGORA_OFFLINE"):
            raise TemplatesMissingError(f"{found} is missing and AGORA_OFFLINE is set")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as work:
            _unpack(_download(Path(work)), Path(work) / _NAME)
            try:
                (Path(work) / _NAME).rename(found)
            except OSError:
                # Another worker was faster.
                if not found.is_dir():
                    raise
    return found


def _download(work: Path) -> Path:
    wanted = work / "requirements.txt"
    wanted.write_text(_REQUIREMENT)
    # Only the wanted one from source: what its metadata is built with comes ready made.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", "llama-cpp-python", "--dest", str(work), "-r", str(wanted)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TemplatesMissingError(f"the download took over {_SECONDS} s") from error
    archives = list(work.glob("*.tar.gz"))
    if done.returncode or not archives:
        raise TemplatesMissingError(f"the download failed: {done.stderr.strip()[-300:]}")
    return archives[0]


def _unpack(archive: Path, into: Path) -> None:
    into.mkdir()
    with tarfile.open(archive) as tar:
        for member in tar:
            if _FOLDER in member.name and member.name.endswith(".jinja"):
                data = tar.extractfile(member)
                if data is not None:
                    (into / Path(member.name).name).write_bytes(data.read())


class _Generation(Extension):
    """Reads `{% generation %}`, which marks the assistant's tokens for training, as plain text."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.If(nodes.Const(True), body, [], [], lineno=line)


def _refuse(message: str) -> str:
    raise TemplateError(message)


def _to_json(value: Any, **options: Any) -> str:
    options.setdefault("ensure_ascii", False)
    return json.dumps(list(value) if isinstance(value, Iterator) else value, **options)


def load() -> dict[str, Callable[..., str]]:
    """Return each template's render function under its name."""
    # Some of them append to lists of their own, which an immutable sandbox would not let them.
    environment = SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.filters["from_json"] = json.loads
    environment.globals["raise_exception"] = _refuse
    # A fixed day, so that a run can be repeated.
    environment.globals["strftime_now"] = datetime(2026, 1, 2).strftime
    return {
        path.stem: environment.from_string(path.read_text(encoding="utf-8")).render
        for path in sorted(folder().glob("*.jinja"))
    }


def refusal(
    render: Callable[..., str], messages: list[Message], form: Form, tools: list[Message]
) -> str:
    """Return the template's error on the messages; empty if it renders them."""
    try:
        render(
            messages=[_in_form(message, form) for message in messages],
            tools=tools,
            functions=json.dumps([tool["function"] for tool in tools]),
            datetime="2026-01-02",
            add_generation_prompt=True,
            bos_token="<s>",  # noqa: S106 - a token of text
            eos_token="</s>",  # noqa: S106
        )
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _in_form(message: Message, form: Form) -> Message:
    if form == "wire":
        return message
    if message.get("content") is None:
        message = {**message, "content": ""}
    if form == "no null" or not message.get("tool_calls"):
        return message
    calls = [
        {**call, "function": {**function, "arguments": json.loads(function["arguments"])}}
        for call in message["tool_calls"]
        for function in [call["function"]]
    ]
    return {**message, "tool_calls": calls}
