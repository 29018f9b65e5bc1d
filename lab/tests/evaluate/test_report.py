"""Reports: the paper's tables from a run's files alone."""

import gzip
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from lab.tests.evaluate.test_experiment import EXPERIMENT, HERE

from agora import PriceSheet
from agora_lab.cli.lab import lab
from agora_lab.episodes import RunError
from agora_lab.evaluate.audit import audit, refuse_trained_on
from agora_lab.evaluate.experiment import Run
from agora_lab.evaluate.figures import Figures, paper
from agora_lab.evaluate.prompts import grammar, kept_steps
from agora_lab.evaluate.report import make
from agora_lab.evaluate.rows import Row, cached_dollars, gather
from agora_lab.evaluate.tables import Table

CELL = (f"{HERE}:WORLD", f"{HERE}:rememberer")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    list(Run(EXPERIMENT, folder).play())
    return folder


@pytest.fixture(scope="module")
def made(run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Figures, dict[str, Table]]:
    figures, tables = make([run], tmp_path_factory.mktemp("report"))
    return figures, {table.name: table for table in tables}


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_report_made_again_elsewhere_or_from_its_own_rows_is_the_same_bytes(
    run: Path, tmp_path: Path
) -> None:
    make([run], tmp_path / "first")
    make([Path(shutil.copytree(run, tmp_path / "elsewhere"))], tmp_path / "again")
    make([tmp_path / "first"], tmp_path / "from-rows")

    assert files(tmp_path / "again") == files(tmp_path / "first")
    assert files(tmp_path / "from-rows") == files(tmp_path / "first")


def test_the_uncompressed_arm_retains_everything_at_ratio_1(
    made: tuple[Figures, dict[str, Table]],
) -> None:
    none = made[0].cell(*CELL, "none")

    assert none is not None
    assert none.retention is not None
    assert none.ratio is not None
    assert (none.retention.value, none.ratio.value, none.by_call.value) == (1, 1, 1)
    assert set(none.differences) == {"agora_paper"}
    assert none.dollars_ratio is not None
    assert none.dollars_ratio.value == 1


def test_who_forgets_needs_more_steps_than_who_sees_everything(
    made: tuple[Figures, dict[str, Table]],
) -> None:
    floor = made[0].cell(*CELL, "floor")

    assert floor is not None
    assert floor.steps_ratio is not None
    assert floor.steps_ratio.low > 1
    assert floor.by_call.value > 1
    assert floor.differences["none"].p_holm >= floor.differences["none"].p


def test_every_table_has_one_cell_for_each_head_and_names_the_paper_where_it_is_quoted(
    made: tuple[Figures, dict[str, Table]],
) -> None:
    tables = made[1]

    assert {"table1", "passes", "table2", "token_level", "audits", "jaccard"} <= tables.keys()
    for table in tables.values():
        assert all(len(row) == len(table.head) for row in table.rows), table.name
    assert "paper 75 %" in tables["passes"].head


def test_ablations_are_compared_with_agora_which_is_named_with_its_scorer(
    made: tuple[Figures, dict[str, Table]],
) -> None:
    figures, tables = made
    rows = {row[0]: row for row in tables["table3"].rows}

    assert "AGORA, scorer=bm25" in rows
    assert rows["Hard-CF"][1] == "not played"
    assert rows["-Scorer (Floor-K2)"][-3:] == ("0.356", "-0.031", "3 of 9")
    floor = figures.cell(*CELL, "floor")
    assert floor is not None
    assert set(floor.differences) == {"none", "agora_paper"}


def test_the_papers_numbers_are_those_it_prints() -> None:
    numbers = paper()

    assert numbers["table1"]["agora"]["reward"]["webshop"] == [0.468, 0.266, 0.431]
    assert numbers["table2"]["acon"]["ratio"]["webshop"] == [9.3, 14.0, 4.4]
    assert numbers["table3"]["random_step"]["difference"] == -0.344
    assert len(numbers["token_level"]) == 17
    assert max(cell["reward"] for cell in numbers["token_level"]) <= 0.05
    # 44 of the 81 retentions are more than a point off the rewards beside them.
    off = 0
    for method, row in numbers["table1"].items():
        for environment in numbers["environments"] if method != "none" else ():
            whole = numbers["table1"]["none"]["reward"][environment]
            for reward, share, base in zip(
                row["reward"][environment], row["retention"][environment], whole, strict=True
            ):
                off += abs(100 * reward / base - share) > 1
    assert off == 44


def test_the_page_is_well_formed_and_loads_nothing(run: Path, tmp_path: Path) -> None:
    make([run], tmp_path)
    page = (tmp_path / "report.html").read_text()

    class Checker(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "line", "circle", "br"):
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            if tag not in ("line", "circle"):
                assert self.open.pop() == tag

    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert not re.search(r"(src|href)=|url\(|@import", page)
    assert "prefers-color-scheme: dark" in page
    assert "<svg" in page


def test_two_runs_that_disagree_on_an_episode_are_not_reported_together(
    run: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    file = other / "episodes.jsonl"
    file.write_text(file.read_text().replace("Right.", "Wrong."))

    assert len(gather([run, run]).rows) == len(gather([run]).rows)
    with pytest.raises(RunError, match="a different episode for"):
        gather([run, other])
    with pytest.raises(RunError, match="holds no settings"):
        gather([tmp_path])


def test_rows_of_another_schema_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(b'{"schema": 0}\n'))

    with pytest.raises(RunError, match="schema"):
        gather([tmp_path])


def test_the_command_prints_the_tables_and_names_the_page(run: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(lab, ["report", str(run), "--out", str(tmp_path / "report")])

    assert result.exit_code == 0, result.output
    assert "Table 1" in result.output
    assert str(tmp_path / "report" / "report.html") in result.output


def chat(*texts: str) -> list[dict[str, str]]:
    roles = ["system", "user", *("assistant", "user") * len(texts)]
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


WHOLE = chat("Shop.", "find it", "search[red shoes]", "B01 B02", "click[B01]", "size 9")


def test_kept_steps_are_those_that_stand_word_for_word() -> None:
    masked = [*WHOLE[:3], {"role": "user", "content": "[left out]"}, *WHOLE[4:]]
    as_text = [{"role": "user", "content": "[ASSISTANT]\nclick[B01]\n\n[USER]\nsize 9"}]

    assert kept_steps(WHOLE, WHOLE) == [1, 2]
    assert kept_steps(WHOLE, masked) == [2]
    assert kept_steps(WHOLE, as_text) == [2]
    assert kept_steps(WHOLE, WHOLE[:2]) == []


def test_lost_grammar_is_what_only_the_whole_prompt_held() -> None:
    cut = chat("Shop.", "find it", "search red shoes", "B02", "click B01", "size 9")

    lost = grammar("click[B02]", WHOLE, cut)

    assert (lost["next"], lost["next_lost"]) == (4, 2)
    assert (lost["commands"], lost["commands_whole"]) == (2, 0)
    assert grammar("click[B02]", WHOLE, WHOLE)["next_lost"] == 0


def test_a_growing_prompt_is_read_from_the_cache_and_a_rewritten_one_is_not() -> None:
    sheet = PriceSheet(name="m", input=1.0, read=0.1, write=1.0, output=1.0)
    growing = [["system", *["word " * 50] * n] for n in range(1, 8)]
    rewritten = [[f"{n}", *prompt] for n, prompt in enumerate(growing)]

    assert cached_dollars(growing, sheet) < 0.5 * cached_dollars(rewritten, sheet)
    assert cached_dollars(rewritten, sheet) == cached_dollars(rewritten, sheet.no_cache())


def row(**changed: object) -> Row:
    values = {
        "environment": "e",
        "backbone": "b",
        "method": "m",
        "seed": 0,
        "task": "1",
        "reward": 1.0,
        "steps": 3,
        "ended": "done",
        "valid": 3,
        "tokens_sent": 10,
        "tokens_shown": 10,
        "tokens_whole": 20,
        "output_tokens": 3,
        "method_input_tokens": 0,
        "method_output_tokens": 0,
        "repeated": 0,
        "longest_run": 1,
        "cut_off": 0,
        "trajectory": "a",
        "dollars": {},
    }
    return Row(**{**values, **changed})  # type: ignore[arg-type]


def test_tasks_that_were_trained_on_keep_a_cell_out() -> None:
    refuse_trained_on("e", ["1"], ["2"])

    assert not audit([row()], training=["1"]).admitted
    assert audit([row()], training=["2"]).admitted
    assert audit([row()]).admitted


def test_two_tasks_of_a_chunk_that_went_the_same_way_keep_a_cell_out() -> None:
    rows = [row(task=str(n), trajectory=str(n % 5)) for n in range(10)]
    apart = audit(rows, planned=[str(n) for n in range(10)])
    together = audit(rows, planned=["0", "5", "1", "2", "3", "4", "6", "7", "8", "9"])

    assert apart.admitted
    assert not together.admitted
    assert "5 went like 0" in together.flags[0]


def test_loops_truncation_drift_and_missing_tasks_are_shown_and_keep_nothing_out() -> None:
    found = audit([row(longest_run=5, cut_off=2)], planned=["1", "2"], compression=1.0, target=4.0)

    assert found.admitted
    assert len(found.flags) == 3
    assert "0.25 of its target 4.00x" in found.flags[0]
    assert "1 of 1 episodes with a loop (longest run 5); 2 of 3 answers truncated" in found.flags[1]
    assert "1 of 2 tasks" in found.flags[2]
    assert not audit([row()], planned=["1"], compression=2.5, target=4.0).flags
