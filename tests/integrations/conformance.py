"""What every integration has to keep, whichever framework it is for.

An agent reads files with a real tool; a strict provider on loopback plays the model. The same
agent runs without the integration and with it. Each request with it must be what
a session makes of the request without it, on the wire, value for value: a hook that
does not fire, fires twice or edits something else fails.
"""

import json
import logging
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import agora
from agora import Compressor, Session, sheet_for
from agora.testing import FailingScorer
from harness.shortened import is_edited
from tests.integrations.loopback import (
    OUTPUT_TOKENS,
    Answer,
    Call,
    Loopback,
    Received,
    loopback,
    prompt_tokens_of,
)

ROOT = Path(__file__).parents[2]
MODEL = "gpt-4-turbo"
"""A model without a discount for cached tokens: a compressor that hears its name edits at every
call, one that does not hear it assumes that editing is expensive. Its input costs $10 a million."""
THINKING = ("responses", "anthropic")
"""The APIs in which the provider of these tests thinks."""
SYSTEM = "You read files and say what is in them."
TASK = "Which of the notes names the harbour master? Read them all."
ANSWER = "It is in note 3."
FILES = 10
DEFAULT = Compressor()
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk"
    "Jggg=="
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run of an agent."""

    endpoint: str
    """The API it calls: openai, responses or anthropic."""
    call: str
    """How it is called: sync, async, stream or astream, or what else the framework has."""
    url: str = ""
    """The provider's, without /v1."""
    folder: Path
    compressor: Compressor | None = None
    """None: without the integration."""
    image: bool = False
    thinking: bool = False
    model: str = MODEL

    def read_file(self, name: str) -> str:
        """Return the text of a file of the folder, for the framework's tool."""
        return (self.folder / name).read_text()


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it."""

    answer: str
    history: Any
    """What the framework keeps, or the caller's own list: as plain values, without ids and times
    that differ from run to run."""
    requests: Sequence[Received] = ()
    savings: agora.Savings | None = None
    """What `agora.savings` says of the integration."""


def note(number: int) -> str:
    """Return the text of a file, long enough to be worth shortening."""
    lines = [f"Note {number}: ledger L-{number}07, berth_{number}."]
    lines += [
        f"On day {day} the barge barge_{number}_{day} took {day * 13 % 37} crates to quay Q{day}."
        for day in range(1, 36)
    ]
    return "\n".join(lines)


def write_notes(folder: Path) -> None:
    """Write the files that the agent reads."""
    for number in range(1, FILES + 1):
        (folder / f"note_{number}.txt").write_text(note(number))


def script(*, thinking: bool, last: Answer | None = None) -> list[Answer]:
    """Return the model's answers: files one by one, two at once, words before a call, the end."""
    answers = []
    number = 1
    while number <= FILES:
        together = (number, number + 1) if number in (2, 6) else (number,)
        answers.append(
            Answer(
                text=f"Next comes note {number}." if number == 5 else "",
                thought=f"I have not seen note {number} yet." if thinking else "",
                calls=tuple(
                    Call(f"call_{n}", "read_file", {"name": f"note_{n}.txt"}) for n in together
                ),
            )
        )
        number += len(together)
    end = Answer(text=ANSWER, thought="That was all." if thinking else "")
    return [*answers, last or end]


class Conformance:
    """The suite: a subclass says how its framework runs a case."""

    ways: ClassVar[tuple[str, ...]] = ()
    """`endpoint/call` of all that is claimed to work."""
    rich: ClassVar[tuple[str, ...]] = ()
    """The ways that also take thinking and images."""
    images: ClassVar[bool] = True
    translated: ClassVar[tuple[str, ...]] = ()
    """The endpoints whose messages are read in another format than they are sent in, or `thinking`
    for messages with thinking. Then sizes differ a little, and at the edge of the budget another
    step may stay."""
    picture: ClassVar[str] = PNG
    """What of the image has to arrive, if a framework rewrites it."""
    example: ClassVar[str] = ""
    """The program in examples/integrations."""
    middle: ClassVar[int] = 5_000
    """A size in tokens that a run reaches about half-way."""
    unpriced: ClassVar[tuple[str, ...]] = ()
    """The ways of calling in which the provider reports no usage."""
    last: ClassVar[Answer | None] = None
    """How the model ends, where an agent does not take plain words for an answer."""

    def run(self, case: Case) -> Ran:
        """Run an agent with the tool `read_file` on `TASK` and return what came of it."""
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: Any) -> None:
        if "way" in metafunc.fixturenames:
            metafunc.parametrize("way", self.ways)
        if "rich_way" in metafunc.fixturenames:
            metafunc.parametrize("rich_way", self.rich)

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("notes")
        write_notes(folder)
        return folder

    def test_the_model_receives_exactly_what_the_compressor_gives(
        self, way: str, folder: Path
    ) -> None:
        plain = self._ran(way, folder)
        ran = self._ran(way, folder, DEFAULT)

        assert ran.answer == plain.answer == ANSWER
        self._check_requests(plain, ran, DEFAULT)

    def test_compression_that_starts_in_the_middle_of_a_run_leaves_the_history_whole(
        self, way: str, folder: Path
    ) -> None:
        compressor = Compressor(min_tokens=self.middle)
        plain = self._ran(way, folder)
        ran = self._ran(way, folder, compressor)

        pairs = zip(plain.requests, ran.requests, strict=True)
        edited = [before.messages != after.messages for before, after in pairs]
        start = edited.index(True)
        assert start >= 3, "the first calls are too short to be worth an edit"
        assert not is_edited([r.body for r in ran.requests[:start]])
        assert sum(edited[start:]) >= 3, "and from then on calls are compressed"
        assert ran.answer == plain.answer == ANSWER
        assert ran.history == plain.history
        self._check_requests(plain, ran, compressor)

    def test_the_frameworks_own_history_stays_whole(self, way: str, folder: Path) -> None:
        plain = self._ran(way, folder)
        ran = self._ran(way, folder, DEFAULT)

        assert ran.history == plain.history
        assert not is_edited(ran.history)
        assert all(f"ledger L-{n}07" in json.dumps(ran.history) for n in range(1, FILES + 1))

    def test_dollars_saved_come_from_the_usage_of_the_provider(
        self, way: str, folder: Path
    ) -> None:
        plain = self._ran(way, folder)
        ran = self._ran(way, folder, DEFAULT)

        savings = ran.savings
        assert savings is not None
        assert savings.calls == len(ran.requests)
        assert savings.shortened >= 3
        if way in self.unpriced:
            assert savings.unpriced == savings.calls
            return
        assert savings.unpriced == 0
        prompt_tokens = sum(prompt_tokens_of(request) for request in ran.requests)
        assert savings.prompt_tokens == prompt_tokens
        sheet = sheet_for(MODEL)
        output = OUTPUT_TOKENS * savings.calls
        spent = (prompt_tokens * sheet.input + output * sheet.output) / 1e6
        assert savings.spent == pytest.approx(spent)
        saved = sum(map(prompt_tokens_of, plain.requests)) - prompt_tokens
        assert savings.tokens == pytest.approx(saved, rel=0.1)
        assert savings.dollars == pytest.approx(saved * sheet.input / 1e6, rel=0.1)

    def test_an_error_of_the_provider_reaches_the_agent_as_without_us(self, folder: Path) -> None:
        errors = []
        for compressor in (None, DEFAULT):
            endpoint, call = self.ways[0].split("/")
            case = Case(endpoint=endpoint, call=call, folder=folder, compressor=compressor)
            with loopback(script(thinking=False, last=self.last), fails_at=6) as server:
                with pytest.raises(Exception) as caught:  # noqa: PT011 - whichever it raises
                    self.run(replace(case, url=server.url))
                errors.append((type(caught.value), server.failed > 0))

        assert errors[0] == errors[1]
        assert errors[0][1]

    def test_where_the_scorer_fails_the_model_receives_what_the_rule_gives(
        self, folder: Path
    ) -> None:
        compressor = Compressor(scorer=FailingScorer(RuntimeError("planted")))
        plain = self._ran(self.ways[0], folder)
        ran = self._ran(self.ways[0], folder, compressor)

        self._check_requests(plain, ran, compressor)

    def test_where_nothing_is_elided_requests_are_as_they_were(
        self, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        plain = self._ran(self.ways[0], folder)
        with caplog.at_level(logging.DEBUG, logger="agora.integrations"):
            ran = self._ran(self.ways[0], folder, Compressor(edits="never"))

        assert [r.body for r in ran.requests] == [r.body for r in plain.requests]
        compressions = [r.compression for r in caplog.records if hasattr(r, "compression")]
        assert len(compressions) == len(ran.requests)
        assert all(each.digest for each in compressions), "a session knows every call"

    def test_thinking_and_images_go_through(self, rich_way: str, folder: Path) -> None:
        compressor = Compressor()
        plain = self._ran(rich_way, folder, rich=True, images=self.images)
        ran = self._ran(rich_way, folder, compressor, rich=True, images=self.images)

        sent = json.dumps([r.messages for r in ran.requests])
        assert ran.answer == plain.answer == ANSWER
        assert ran.history == plain.history
        assert not self.images or self.picture in sent
        if rich_way.startswith(THINKING):
            assert "I have not seen note" in sent
        self._check_requests(plain, ran, compressor, thinking=True)

    def test_the_example_finishes_and_says_what_it_saved(self, folder: Path) -> None:
        if not self.example:
            pytest.skip("another class runs the example")
        with loopback(script(thinking=False, last=self.last)) as server:
            where = ["--base-url", f"{server.url}/v1", "--model", MODEL, "--folder", str(folder)]
            program = ROOT / "examples" / "integrations" / self.example
            ran = subprocess.run(
                [sys.executable, str(program), *where],
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
                cwd=folder,
            )

        assert ANSWER in ran.stdout, ran.stdout + ran.stderr
        assert re.search(r"saved about \$0\.0*[1-9]", ran.stdout), ran.stdout + ran.stderr

    def _ran(
        self,
        way: str,
        folder: Path,
        compressor: Compressor | None = None,
        *,
        rich: bool = False,
        images: bool = False,
    ) -> Ran:
        endpoint, call = way.split("/")
        case = Case(
            endpoint=endpoint,
            call=call,
            folder=folder,
            compressor=compressor,
            image=images,
            thinking=rich and endpoint in THINKING,
        )
        if compressor is None or compressor is DEFAULT:
            return _remembered(self, case)
        return _served(self, case)

    def _check_requests(
        self, plain: Ran, ran: Ran, compressor: Compressor, *, thinking: bool = False
    ) -> None:
        assert len(ran.requests) == len(plain.requests) > 1
        read_otherwise = plain.requests[0].format in self.translated
        if read_otherwise or (thinking and "thinking" in self.translated):
            assert [r.options for r in ran.requests] == [r.options for r in plain.requests]
            assert sum(is_edited(r.messages) for r in ran.requests) >= 3
            shortest = [len(json.dumps(r.messages)) for r in (ran.requests[-1], plain.requests[-1])]
            assert shortest[0] < 0.7 * shortest[1]
            return
        changed = 0
        session = compressor.session()
        for before, after in zip(plain.requests, ran.requests, strict=True):
            expected = self.expected(before, session)
            changed += expected != before.messages
            assert after.messages == expected
            assert after.options == before.options
            assert after.path == before.path
        assert changed >= 3, "nothing to see: no request was long enough"
        calls = [_calls(request) for request in plain.requests]
        assert max(calls) == FILES, "every call has to be in the history"

    def expected(self, before: Received, session: Session) -> Any:
        """Return a session's messages for a request."""
        compression = session.compress(
            before.messages,
            model=before.model,
            format=before.format,
            system=before.system,
            tools=before.tools,
            thinking=before.thinking,
        )
        session.answered(compression, usage={"input_tokens": prompt_tokens_of(before)})
        return compression.messages


def _served(suite: Conformance, case: Case) -> Ran:
    server: Loopback
    with loopback(script(thinking=case.thinking, last=suite.last)) as server:
        ran = suite.run(replace(case, url=server.url))
        assert not server.refused
        return replace(ran, requests=tuple(server.received))


_RAN: dict[tuple[str, bool, Case], Ran] = {}
"""What came of runs without the integration, and with the default: several tests look at each."""


def _remembered(suite: Conformance, case: Case) -> Ran:
    name = f"{type(suite).__module__}.{type(suite).__qualname__}"
    key = (name, case.compressor is None, replace(case, compressor=None))
    if key not in _RAN:
        _RAN[key] = _served(suite, case)
    return _RAN[key]


def _calls(request: Received) -> int:
    text = json.dumps(request.messages)
    return sum(f'"call_{n}"' in text or f"'call_{n}'" in text for n in range(1, FILES + 1))
