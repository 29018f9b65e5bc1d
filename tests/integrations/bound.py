"""What every integration has to keep on a model that binds its thinking to the prefix.

A provider on loopback signs what it thinks, as `harness.signing` has it, and refuses a thought that
comes back behind another prompt than it was made behind. An agent reads sixteen files, one at a
time; the framework keeps all it thought, so whatever is edited in a call has to lose what is older.
"""

import copy
import json
import math
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agora import Budget, Compressor, PriceSheet, Query, Step
from agora.formats import validate
from harness.shortened import is_edited
from harness.signing import Signer
from tests.integrations.conformance import ANSWER, Case, Ran, note
from tests.integrations.loopback import (
    Answer,
    Body,
    Call,
    Posted,
    Received,
    message_events,
    serving,
)

MODEL = "claude-fable-5-1"
STEPS = 16
NOW_AND_THEN: Any = {
    "budget": Budget(keep_ratio=0.25),
    "min_tokens": 0,
    "max_cost_ratio": math.inf,
    "forgetting": 0,
    "sheet": PriceSheet(name="dear", input=1, read=0.3, write=1.1, output=5),
}
"""Settings that edit every few calls."""
REDACTED = 7
"""Every so many thoughts one is redacted."""


@dataclass
class Signing:
    """Answers requests of Anthropic's format with thoughts that it signs, and checks when they come
    back."""

    script: Sequence[Answer]
    signer: Signer = field(default_factory=lambda: Signer(secret=secrets.token_bytes()))
    """With a secret of its own: no two conversations ever share a signature."""
    redacts: bool = True
    received: list[Received] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    dropped: int = 0
    url: str = ""

    def answer(self, path: str, body: Body, betas: str) -> tuple[int, str, list[bytes]]:
        """Return status, content type and body, in pieces."""
        if path.split("?")[0].endswith("/count_tokens"):
            counted = {"input_tokens": len(json.dumps(body)) // 4}
            return 200, "application/json", [json.dumps(counted).encode()]
        received = Received(path, "anthropic", body)
        broken = validate(
            received.messages,
            format="anthropic",
            system=received.system,
            tools=body.get("tools"),
            thinking=received.thinking,
            model=body["model"],
        )
        verdict = self.signer.receive(body, betas=betas)
        refusal = broken[0].error if broken else verdict.refusal
        if refusal:
            self.refused.append(refusal)
            error = {"type": "invalid_request_error", "message": refusal}
            said = {"type": "error", "error": error}
            return 400, "application/json", [json.dumps(said).encode()]
        self.dropped += len(verdict.dropped)
        number = len(self.received)
        self.received.append(replace(received, body=copy.deepcopy(body)))
        answer = self.script[min(number, len(self.script) - 1)]
        redacted = self.redacts and number % REDACTED == REDACTED - 1
        content = [self.signer.think(body, answer.thought, betas=betas, redacted=redacted)]
        whole = _whole(answer, content, number, body)
        if verdict.reports:
            whole["input_transformations"] = list(verdict.transformations)
        if not body.get("stream"):
            return 200, "application/json", [json.dumps(whole).encode()]
        return 200, "text/event-stream", list(message_events(whole))


def _whole(answer: Answer, content: list[Body], number: int, body: Body) -> Body:
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    for call in answer.calls:
        use = {"id": call.id, "name": call.name, "input": call.arguments}
        content.append({"type": "tool_use", **use})
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": len(json.dumps(body)) // 4, "output_tokens": 8},
    }


@contextmanager
def signing(script: Sequence[Answer], *, redacts: bool = True) -> Iterator[Signing]:
    """Serve on a free port of 127.0.0.1."""
    state = Signing(script, redacts=redacts)

    class Handler(Posted):
        def answered(self, body: Any) -> tuple[int, str, list[bytes]]:
            return state.answer(self.path, body, self.headers.get("anthropic-beta") or "")

    with serving(Handler) as state.url:
        yield state


def long_script(steps: int = STEPS) -> list[Answer]:
    """Return the model's turn: one file after the other, and then the answer."""
    answers = [
        Answer(
            text=f"Next comes note {n}." if n % 5 == 0 else "",
            thought=f"I have not seen note {n} yet; it may be the one.",
            calls=(Call(f"toolu_{n}", "read_file", {"name": f"note_{n}.txt"}),),
        )
        for n in range(1, steps + 1)
    ]
    return [*answers, Answer(text=ANSWER, thought="That was all.")]


@dataclass
class FailsNowAndThen:
    """Raises every third time that it is asked, else prefers older steps."""

    asked: int = 0

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        """Return scores, or raise."""
        self.asked += 1
        if self.asked % 3 == 0:
            raise RuntimeError("planted")
        return [1 / (1 + step.number) for step in steps]


class Bound:
    """The suite: a subclass says how its framework runs a case, as for `Conformance`."""

    ways: ClassVar[tuple[str, ...]] = ()
    """Of calling; the first is the one that all is tried with."""
    steps: ClassVar[int] = STEPS
    redacts: ClassVar[bool] = True
    """Whether the framework hands redacted thinking back."""
    loose: ClassVar[tuple[str, ...]] = ()
    """The ways in which we see a request that is written anew before it is sent: sizes differ by a
    little, so that at the edge of the budget another step may stay."""

    def run(self, case: Case) -> Ran:
        """Run an agent with the tool `read_file` on `TASK` and return what came of it."""
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: Any) -> None:
        if "way" in metafunc.fixturenames:
            metafunc.parametrize("way", self.ways)

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("notes")
        for number in range(1, cls.steps + 1):
            (folder / f"note_{number}.txt").write_text(note(number))
        return folder

    def test_without_us_all_thinking_comes_back_and_holds(self, way: str, folder: Path) -> None:
        ran, server = self.ran(way, folder, None)

        assert ran.answer == ANSWER
        assert not server.refused
        assert len(thoughts(server.received[-1].messages)) == self.steps

    def test_edited_at_every_call_no_older_thinking_goes_out(self, way: str, folder: Path) -> None:
        compressor = Compressor(edits="every_call")
        plain, before = self.ran(way, folder, None)
        ran, after = self.ran(way, folder, compressor)

        assert ran.answer == ANSWER
        assert not after.refused
        assert not after.dropped
        assert unsigned(ran.history) == unsigned(plain.history)
        assert len(after.received) == len(before.received) == self.steps + 1
        edited = 0
        for was, now in zip(before.received, after.received, strict=True):
            sent = joined(unsigned(now.messages))
            if way in self.loose:
                rest = iter(without_thoughts(joined(unsigned(was.messages))))
                whole = [message for message in sent if not is_edited(message)]
                assert all(message in rest for message in without_thoughts(whole))
            else:
                assert sent == joined(unsigned(self.expected(was, compressor)))
            if is_edited(now.messages):
                edited += 1
                assert not thoughts(now.messages)
        assert edited > self.steps // 2

    def test_edited_now_and_then_newer_thinking_goes_out_and_holds(self, folder: Path) -> None:
        compressor = Compressor(**NOW_AND_THEN)
        ran, server = self.ran(self.ways[0], folder, compressor)

        counts = [
            len(thoughts(request.messages))
            for request in server.received
            if is_edited(request.messages)
        ]
        assert ran.answer == ANSWER
        assert not server.refused
        assert not server.dropped
        assert len(counts) > self.steps // 3
        assert 0 in counts, "an edit takes all"
        assert max(counts) > 2, "what came after it stays"

    def test_where_scoring_fails_now_and_then_nothing_is_refused(self, folder: Path) -> None:
        compressor = Compressor(scorer=FailsNowAndThen(), **NOW_AND_THEN)
        ran, server = self.ran(self.ways[0], folder, compressor)

        assert ran.answer == ANSWER
        assert not server.refused
        assert not server.dropped
        sent = [json.dumps(request.messages) for request in server.received[10:]]
        assert all(map(is_edited, sent))

    def expected(self, before: Received, compressor: Compressor) -> Any:
        """Return the compressor's messages for a request."""
        return compressor.compress(
            before.messages,
            model=before.body["model"],
            format="anthropic",
            system=before.system,
            tools=before.body.get("tools"),
            thinking=before.thinking,
        ).messages

    def ran(self, way: str, folder: Path, compressor: Compressor | None) -> tuple[Ran, Signing]:
        key = (type(self), way)
        if compressor is None and key in _PLAIN:
            return _PLAIN[key]
        with signing(long_script(self.steps), redacts=self.redacts) as server:
            case = Case(
                endpoint="anthropic",
                call=way,
                url=server.url,
                folder=folder,
                compressor=compressor,
                thinking=True,
                model=MODEL,
            )
            found = self.run(case), server
        if compressor is None:
            _PLAIN[key] = found
        return found


_PLAIN: dict[tuple[type, str], tuple[Ran, Signing]] = {}
"""What came of runs without the integration."""


THINKING = ("thinking", "redacted_thinking")


def thoughts(messages: Any) -> list[Body]:
    """Return the thinking blocks of messages."""
    return [
        block
        for message in messages
        for block in (message["content"] if isinstance(message["content"], list) else ())
        if block.get("type") in THINKING
    ]


def without_thoughts(messages: list[Body]) -> list[Body]:
    """Return messages without thinking blocks."""
    return [
        {
            **message,
            "content": [block for block in message["content"] if block.get("type") not in THINKING],
        }
        for message in messages
    ]


def joined(content: Any) -> Any:
    """Return messages or blocks with texts in a row as one: a framework may hold a string."""
    out: list[Body] = []
    for one in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        same = {**one, "content": joined(one["content"])} if "content" in one else one
        if same.get("type") == "text" and out and out[-1].get("type") == "text":
            same = {**same, "text": f"{out.pop()['text']}\n\n{same['text']}"}
        out.append(same)
    return out


def unsigned(value: Any) -> Any:
    """Return a value without what differs from run to run: signatures, and where the cache ends."""
    if isinstance(value, list):
        return [unsigned(item) for item in value]
    if isinstance(value, dict):
        apart = ("signature", "data", "thought_signature", "encrypted_content", "cache_control")
        return {k: unsigned(v) for k, v in value.items() if k not in apart}
    return value
