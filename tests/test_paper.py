"""The paper's method against an oracle that was written from the paper alone."""

import json
import logging
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import agora
from agora import Compressor, Query, Reason, Scorer, Step
from agora.paper import Atom, PaperCompressor
from agora.scorers import write_bundle
from tests import command

# The oracle: section 3 of the paper and its appendix B, on strings, nothing of the package.


def oracle(
    prompt: str,
    score: Callable[[str], float],
    *,
    rho: float = 0.25,
    k_recent: int = 2,
    theta_hi: float = 0.9,
    to_the_letter: bool = False,
) -> tuple[str, set[int]]:
    """Return the compressed prompt and the numbers of the kept steps.

    By the example of appendix B the newest step, which holds c_now, is one of the recent ones.
    Eq. 2 to the letter keeps `k_recent` steps besides it.
    """
    blocks = re.split(r"^(?=\[(?:SYSTEM|USER|ASSISTANT)\])", prompt, flags=re.MULTILINE)
    first = next(n for n, block in enumerate(blocks) if block.startswith("[ASSISTANT]"))
    head, steps = "".join(blocks[:first]), []
    state = "observing"
    for block in blocks[first:]:
        acting = block.startswith("[ASSISTANT]")
        if acting and state == "observing":
            steps.append("")
        state = "acting" if acting else "observing"
        steps[-1] += block
    pending = steps.pop() if state == "acting" else ""
    past = range(len(steps))

    p = [score(step) for step in steps]
    recent = len(steps) - k_recent - (1 if to_the_letter else 0)
    floor = {i for i in past if i >= recent or p[i] > theta_hi}
    budget = math.floor(rho * len(prompt))
    spent = len(head) + len(pending) + sum(len(steps[i]) for i in floor)
    chosen = set(floor)
    for i in sorted(set(past) - floor, key=lambda i: (p[i], i), reverse=True):
        if spent + len(steps[i]) <= budget:
            chosen.add(i)
            spent += len(steps[i])

    out, dropped = head, 0
    for i in past:
        if i not in chosen:
            dropped += 1
            continue
        if dropped:
            out += f"[... {dropped} step(s) elided ...]\n"
            dropped = 0
        out += steps[i]
    return out + pending, {i + 1 for i in chosen}


WORDS = "box key shelf lamp door apple oven drawer cup plate".split()


def observation_score(step: str) -> float:
    """Return a score in tenths that depends on the last line, so that many steps are tied."""
    line = step.strip().split("\n")[-1].removeprefix("[USER] ")
    return len(line) % 11 / 10


class ByObservation:
    """The same score from a step as the scorer protocol gives it."""

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        return [observation_score(step.observation) for step in steps]


def transcript(source: random.Random) -> str:
    def words(most: int) -> str:
        return " ".join(source.choices(WORDS, k=source.randint(1, most)))

    lines = [f"[SYSTEM] {words(8)}"] if source.random() < 0.8 else []
    lines.append(f"[USER] find {words(12)}")
    for _ in range(source.randint(1, 40)):
        lines.append(f"[ASSISTANT] open {words(4)}")
        if source.random() < 0.1:
            lines.append(f"[ASSISTANT] then {words(4)}")
        if source.random() < 0.15:
            lines.append(f"[USER] {words(10)}")
        lines.append(f"[USER] {words(40)}")
    if source.random() < 0.3:
        lines.append(f"[ASSISTANT] {words(30)}")
    return "\n".join(lines) + "\n"


def kept(compression: agora.Compression) -> set[int]:
    return {step.number for step in compression.decisions if step.outcome != "elided"}


@pytest.mark.parametrize("rho", [0.1, 0.25, 0.5])
def test_the_library_keeps_the_steps_and_writes_the_bytes_of_the_oracle(rho: float) -> None:
    compressor = PaperCompressor(ByObservation(), rho=rho, strict=True)
    changed = overridden = filled = 0
    for seed in range(1_000):
        prompt = transcript(random.Random(f"{rho} {seed}"))

        compression = compressor.compress(prompt)

        text, steps = oracle(prompt, observation_score, rho=rho)
        assert compression.messages == text, seed
        assert kept(compression) == steps, seed
        assert compression.tokens_before == len(prompt)
        assert compression.tokens_after == len(text)
        changed += compression.changed
        reasons = [decision.reason for decision in compression.decisions]
        overridden += "sure to be needed" in reasons
        filled += "score" in reasons and compression.changed
    assert changed > 500
    assert overridden > 200
    assert filled > 30


def test_the_newest_step_counts_among_the_recent_ones_as_in_the_papers_example() -> None:
    ours = PaperCompressor(ByObservation(), strict=True)
    different = 0
    for seed in range(300):
        prompt = transcript(random.Random(seed))

        letter, _ = oracle(prompt, observation_score, to_the_letter=True)
        example, _ = oracle(prompt, observation_score)

        assert ours.compress(prompt).messages == example
        different += letter != example
    assert different > 100


def test_without_recent_steps_the_one_with_the_current_observation_stays() -> None:
    prompt = transcript(random.Random(3))
    compression = PaperCompressor(ByObservation(), rho=0, k_recent=0, theta_hi=1).compress(prompt)

    assert kept(compression) == {len(compression.decisions)}


def test_a_pending_block_spends_budget() -> None:
    def prompt(pending: int) -> str:
        steps = "".join(f"[ASSISTANT] open {n}\n[USER] {'box ' * 10}\n" for n in range(12))
        return f"[USER] find\n{steps}[ASSISTANT] {'x' * pending}\n"

    class Even:
        def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
            return [0.5] * len(steps)

    compressor = PaperCompressor(Even(), rho=0.5)

    assert len(kept(compressor.compress(prompt(0)))) > len(kept(compressor.compress(prompt(400))))


def test_an_atom_is_what_the_scorer_reads_and_the_prompt_keeps_the_step_itself() -> None:
    seen: list[str] = []

    class Seeing:
        def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
            seen.append(query.observation)
            seen.extend(f"{step.action}|{step.observation}" for step in steps)
            return [1.0] + [0.0] * (len(steps) - 1)

    prompt = "[USER] find it\n" + "".join(
        f"[ASSISTANT] Thought: hm.\nopen box {n}\n[USER] The box {n} is empty. {'So. ' * 9}\n"
        for n in range(1, 6)
    )

    def upper(step: Step) -> Atom:
        return Atom(step.action.split("\n")[-1], f"box {step.number}: nothing")

    compression = Compressor.paper(Seeing(), upper).compress(prompt)

    assert seen[0].startswith("The box 5 is empty.")
    assert seen[1:] == [f"open box {n}|box {n}: nothing" for n in (1, 2, 3)]
    assert "Thought: hm.\nopen box 1\n[USER] The box 1 is empty." in compression.messages


def chat(calls: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You act."},
        {"role": "user", "content": "Find the key."},
    ]
    for n in range(1, 9):
        found = f"box {n} holds " + "a coin and " * 20
        if calls:
            function = {"name": "look", "arguments": "{}"}
            call = {"id": f"c{n}", "type": "function", "function": function}
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{n}", "content": found},
            ]
            if n == 4:
                messages += [
                    {"role": "assistant", "content": "No key so far."},
                    {"role": "user", "content": "Go on."},
                ]
        else:
            messages += [
                {"role": "assistant", "content": f"open box {n}"},
                {"role": "user", "content": found},
            ]
    return messages


def test_in_a_chat_by_text_markers_stand_behind_the_message_before_them() -> None:
    messages = chat(calls=False)
    before = json.dumps(messages)

    compression = Compressor.paper(ByObservation()).compress(messages, observations="user")

    out = compression.messages
    assert json.dumps(messages) == before
    assert agora.validate(out, format="openai") == []
    assert out[0] == messages[0]
    assert out[-4:] == messages[-4:]
    number = len(compression.decisions) - len(kept(compression))
    marked = sum(map(int, re.findall(r"\[\.\.\. (\d+) step\(s\) elided \.\.\.\]", json.dumps(out))))
    assert marked == number > 0


def test_in_a_chat_with_tool_calls_what_the_user_says_stays() -> None:
    messages = chat(calls=True)

    class Zero:
        def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
            return [0.0] * len(steps)

    out = PaperCompressor(Zero(), rho=0).compress(messages).messages

    assert agora.validate(out, format="openai") == []
    said = [message["content"].split("\n\n")[0] for message in out if message["role"] == "user"]
    assert said == ["Find the key.", "Go on."]
    assert out[1]["content"].endswith("[... 4 step(s) elided ...]")
    assert out[-4:] == messages[-4:]


def test_when_every_step_is_kept_the_callers_own_object_comes_back() -> None:
    messages = chat(calls=True)[:4]

    compression = Compressor.paper(ByObservation()).compress(messages)

    assert compression.messages is messages
    assert compression.reason is Reason.NOTHING_TO_ELIDE


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([{"role": "user", "parts": [{"text": "hi"}]}], Reason.UNREADABLE),
        (chat(calls=True)[:-1], Reason.ILLEGAL_INPUT),
        (7, Reason.UNREADABLE),
    ],
)
def test_what_the_method_cannot_read_comes_back_as_it_is(messages: Any, reason: Reason) -> None:
    compression = Compressor.paper(ByObservation()).compress(messages)

    assert compression.messages is messages
    assert compression.reason is reason


def test_a_scorer_that_fails_leaves_the_prompt_alone_or_with_strict_raises(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from agora.testing import FailingScorer

    prompt = transcript(random.Random(5))
    broken = FailingScorer(RuntimeError("no weights"))
    with caplog.at_level(logging.WARNING):
        compression = Compressor.paper(broken).compress(prompt)

    assert compression.messages == prompt
    assert (compression.reason, compression.detail) == (Reason.FAILED, "RuntimeError: no weights")
    assert "no weights" in caplog.text
    with pytest.raises(RuntimeError, match="no weights"):
        PaperCompressor(broken, strict=True).compress(prompt)


@pytest.mark.parametrize(
    "wrong",
    [{"scorer": None}, {"scorer": "bm25"}, {"rho": 1.5}, {"theta_hi": "x"}, {"k_recent": -1}],
)
def test_a_setting_out_of_its_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PaperCompressor(**{"scorer": ByObservation(), **wrong})


# The command


@dataclass(frozen=True)
class Answer:
    stdout: str
    stderr: str
    exit_code: int


def run(*arguments: str) -> Answer:
    result = command.run("compress", *arguments)
    return Answer(result.stdout, result.stderr, result.exit_code)


@pytest.mark.parametrize("options", [(), ("--keep-ratio", "0.5")])
def test_the_command_writes_what_the_library_writes(tmp_path: Path, options: tuple[str]) -> None:
    scorer: Scorer = agora.load_scorer("bm25")
    library = PaperCompressor(scorer, rho=0.5) if options else Compressor.paper(scorer)
    path = tmp_path / "prompt.txt"
    changed = 0
    for seed in range(40):
        prompt = transcript(random.Random(seed))
        path.write_text(prompt)

        answer = run("--paper", "--scorer", "bm25", *options, str(path))

        assert answer.stdout == library.compress(prompt).messages, seed
        changed += answer.stdout != prompt
    assert changed > 15


def test_the_command_says_that_a_scorer_is_not_of_the_papers_kind(tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text(transcript(random.Random(1)))

    write_bundle(tmp_path / "trained", scorer="cross_encoder", files={})

    other = run("--paper", "--scorer", "recency", str(path))
    own = run("--paper", "--scorer", str(tmp_path / "trained"), str(path))

    assert "recency is not the paper's kind of scorer" in other.stderr
    assert "kind of scorer" not in own.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "--paper needs --scorer"),
        (("--scorer", "recency", "--edits", "never"), "--paper does not take --edits"),
        (("--scorer", "recency", "--pin", "1"), "--paper does not take --pin"),
    ],
)
def test_the_command_refuses_options_that_the_paper_does_not_have(
    tmp_path: Path, options: tuple[str, ...], problem: str
) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text(transcript(random.Random(1)))

    answer = run("--paper", *options, str(path))

    assert answer.exit_code == 2
    assert problem in answer.stderr
