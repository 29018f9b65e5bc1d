import gzip
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from lab.harness.fidelity_run import write_run

from agora_lab.fidelity.judged import read_probes
from agora_lab.fidelity.probes import METHODS, Planned, plan, run
from agora_lab.journal import BusyError, Journal

MADE = tuple(name for name in METHODS if not name.startswith("forms"))
"""What the made run has prompts of: the others are passed over."""


class Letters:
    """Writes a chat as JSON, a token per character."""

    @property
    def tokenizer(self) -> "Letters":
        return self

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = ()) -> str:
        return json.dumps(messages)

    def token_ids(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return "".join(map(chr, token_ids))


class Finder:
    """Finds an answer likelier the nearer it stands to the thing it is asked about."""

    def __init__(self) -> None:
        self.asked = 0

    def choose(self, prompt: Sequence[int], choices: Sequence[Sequence[int]]) -> list[float]:
        self.asked += 1
        *_, last = json.loads("".join(map(chr, prompt)))
        thing = last["content"].partition("?")[0].rpartition(" ")[2]
        past = "".join(map(chr, prompt)).replace("\\", "")
        at = past.find(f'"{thing}"')
        words = [re.escape("".join(map(chr, choice[:-1]))) for choice in choices]
        found = [re.search(rf"(?<!\w){word}(?!\w)", past[max(at, 0) :]) for word in words]
        return [1e6 if at < 0 or place is None else float(place.start()) for place in found]

    def answer(self, prompt: Sequence[int], *, max_tokens: int, ends: frozenset[int]) -> list[int]:
        return [ord(c) for c in "no idea"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = write_run(tmp_path / "run", tasks=4, per_task=1, steps=9)
    (made / "probes.jsonl").unlink()
    return made


def planned(folder: Path, probes: int = 12) -> list[Planned]:
    return plan(folder, half="", probes=probes, each=2, worded=3)


def test_probes_ask_only_what_the_floor_does_not_say(folder: Path) -> None:
    for one in planned(folder, 99):
        prompts = json.loads(gzip.decompress(one.file.read_bytes()))
        assert f'"{one.question.answer}"' not in json.dumps(prompts["sent"]["floor"])
        assert one.question.answer in json.dumps(prompts["whole"])
    assert sum(one.worded for one in planned(folder)) == 3
    assert len({one.anchor.source for one in planned(folder, 99)}) >= 2


def test_what_stands_in_the_prompt_is_answered_and_what_does_not_is_not(folder: Path) -> None:
    finder = Finder()
    probes = planned(folder)

    found = list(run(folder, probes, finder, Letters(), ends=frozenset({0})))

    assert len(found) == len(probes) * len(MADE)
    right = {
        name: [one.correct for one in found if one.method == name]
        for name in ("everything", "floor")
    }
    assert all(right["everything"])
    assert not all(right["floor"])
    assert sum(one.said == "no idea" and one.exact is False for one in found) == 3 * len(MADE)
    assert len(read_probes(folder)) == len(found)


def test_a_stopped_run_goes_on_where_it_was(folder: Path) -> None:
    probes, finder = planned(folder), Finder()
    stops = iter([False, False, True])
    some = list(
        run(folder, probes, finder, Letters(), ends=frozenset({0}), enough=lambda: next(stops))
    )
    assert 0 < len(some) < len(probes) * len(MADE)

    rest = list(run(folder, probes, finder, Letters(), ends=frozenset({0})))

    assert finder.asked == len(probes) * len(MADE) == len(some) + len(rest)
    assert list(run(folder, probes, finder, Letters(), ends=frozenset({0}))) == []


def test_two_processes_do_not_ask_the_same_folder(folder: Path) -> None:
    held = Journal(folder / "probes.jsonl")

    with pytest.raises(BusyError):
        list(run(folder, planned(folder), Finder(), Letters(), ends=frozenset({0})))
    held.close()
