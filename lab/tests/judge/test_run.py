from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from lab.harness.bookings import CODE, by_calls, by_text
from lab.harness.tiny_judge import tiny_tokenizer

from agora_lab.cli.fidelity import fidelity
from agora_lab.judge.anchors import Anchor, anchors_of
from agora_lab.judge.likelihood import Scored
from agora_lab.judge.rendering import Rendering
from agora_lab.judge.run import METHODS, Run, read_rows, shares

STORED = Path(__file__).parents[2] / "results" / "judge"


@dataclass
class Finds:
    """Finds a token likely if the needed name is in the prompt, and unlikely if not."""

    tokenizer: Any
    asked: list[str] = field(default_factory=list)

    def score(self, prompt: Sequence[int], continuation: Sequence[int]) -> Scored:
        text = self.tokenizer.decode(prompt)
        self.asked.append(text)
        return Scored((0.1 if CODE in text else 3.0,) * len(continuation), len(prompt))


def run_of(file: Path) -> tuple[Run, Finds]:
    tokenizer = tiny_tokenizer()
    scorer = Finds(tokenizer)
    return Run(file, scorer, Rendering(tokenizer), lambda text: None), scorer


def anchors(count: int, made_by: Any = by_calls, **options: Any) -> list[Anchor]:
    return [anchor for task in range(count) for anchor in anchors_of(made_by(str(task), **options))]


def test_methods_are_measured_where_the_floor_loses_the_margin(tmp_path: Path) -> None:
    run, _ = run_of(tmp_path / "run.jsonl")
    run.measure(anchors(3, steps=8), ["newest"], 0.25, 2)

    assert [row.method for row in run.rows.values()] == ["everything", "floor", "newest"] * 2
    assert {row.needed for row in run.rows.values() if row.method != "newest"} == {
        round(nats * len(CODE), 4) for nats in (0.1, 3.0)
    }


def test_an_anchor_at_which_the_floor_loses_nothing_is_measured_no_further(tmp_path: Path) -> None:
    run, _ = run_of(tmp_path / "run.jsonl")
    [anchor] = anchors(1, steps=8)
    in_the_task = replace(
        anchor.recorded,
        messages=(
            anchor.recorded.messages[0],
            {"role": "user", "content": f"Book {CODE}."},
            *anchor.recorded.messages[2:],
        ),
    )
    run.measure([replace(anchor, recorded=in_the_task)], ["newest"], 0.25, 1)

    assert {row.method for row in run.rows.values()} == {"everything", "floor"}


def test_what_the_file_has_is_not_scored_again(tmp_path: Path) -> None:
    run, _ = run_of(tmp_path / "run.jsonl")
    run.measure(anchors(1, steps=8), ["newest"], 0.25, 1)
    again, scorer = run_of(tmp_path / "run.jsonl")
    again.measure(anchors(1, steps=8), ["newest", "agora"], 0.25, 1)

    assert len(scorer.asked) == 1
    assert read_rows(tmp_path / "run.jsonl") == again.rows


@pytest.mark.parametrize("made_by", [by_calls, by_text])
def test_every_method_keeps_to_its_share_of_what_is_outside_the_floor(
    tmp_path: Path, made_by: Any
) -> None:
    run, _ = run_of(tmp_path / "run.jsonl")
    [anchor] = anchors(1, made_by, steps=8)
    run.measure(
        [anchor], [name for name in METHODS if name not in ("everything", "floor")], 0.25, 1
    )
    sent = {method: row.tokens_sent for (_, method, _), row in run.rows.items()}

    for method in ("newest", "commands_first", "agora"):
        # Markers and the frame of messages come on top.
        assert sent[method] <= sent["floor"] + 0.25 * (sent["everything"] - sent["floor"]) + 120


def test_the_table_says_what_each_method_wins_back(tmp_path: Path) -> None:
    run, _ = run_of(tmp_path / "run.jsonl")
    run.measure(anchors(4, steps=8), ["newest", "agora"], 0.25, 4)
    newest_row, agora_row = shares(run.rows, sources=["made"], half="validation") or shares(
        run.rows, sources=["made"], half="test"
    )

    assert 0 <= newest_row.share[0] <= 1
    assert newest_row.method == "agora"
    assert agora_row.method == "newest"


def test_the_stored_runs_say_what_the_pages_quote() -> None:
    sources = {"tools": ["airline", "retail"], "coding": ["coding"], "shells": ["intercode"]}
    points = {}
    for name, chosen in sources.items():
        rows = read_rows(STORED / f"{name}.jsonl")
        for share in shares(rows, sources=chosen, half="test", against="agora 0.3"):
            points[name, share.method, share.keep] = round(share.share[0], 2), share.anchors
    printed = CliRunner().invoke(fidelity, ["table", str(STORED / "tools.jsonl")])

    assert points["tools", "agora 0.3", 0.25] == (0.82, 42)
    assert points["coding", "commands_first", 0.25] == (0.65, 61)
    assert points["shells", "agora 0.3", 0.25] == (0.62, 34)
    assert "0.82" in printed.output
