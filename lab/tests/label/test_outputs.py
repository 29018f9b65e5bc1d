import errno
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.harness.holding import hold

from agora_lab.label.blocks import cut
from agora_lab.label.outputs import Landing, Output, OutputError, journal_of, journalled

SETTINGS = {"plan": "abc", "temperature": 1.0}


def opened(folder: Path, planned: int = 10, **changed: Any) -> Output:
    return Output(folder, {**SETTINGS, **changed}, planned)


def land(landing: Landing, name: str, orders: list[int], *, pending: bool = False) -> None:
    """Write a block as Ray Data does; left pending, as if the writer had been killed."""
    rows = pa.table({"key": [f"k{order}" for order in orders], "order": pa.array(orders)})
    suffix = ".pending.parquet" if pending else ".parquet"
    pq.write_table(rows, f"{landing.data}/{name}-0.parquet")
    pq.write_table(rows.select(["key"]), f"{landing.checkpoint}/{name}{suffix}")


def written(output: Output) -> list[int]:
    files = sorted(output.answers.glob("*.parquet"))
    return sorted(order for file in files for order in pq.read_table(file)["order"].to_pylist())


@settings(deadline=None)
@given(rows=st.lists(st.integers(1, 900), max_size=20), size=st.integers(1, 500))
def test_blocks_are_the_whole_plan_in_its_order_and_none_is_too_large(
    rows: list[int], size: int
) -> None:
    blocks = list(cut(rows, size))

    assert [block.start for block in blocks] == [0, *(block.stop for block in blocks)][:-1][
        : len(blocks)
    ]
    assert (blocks[-1].stop if blocks else 0) == sum(rows)
    assert all(0 < block.stop - block.start <= size for block in blocks)
    ends = [sum(rows[:group]) for group in range(len(rows) + 1)]
    for block in blocks:
        assert ends[block.group] == block.group_start <= block.start
        assert block.start < ends[block.group + 1]


def test_a_committed_block_is_kept_and_a_pending_one_is_not(tmp_path: Path) -> None:
    with opened(tmp_path) as output:
        land(output.landing, "u_000000", [0, 1])
        land(output.landing, "u_000001", [2, 3], pending=True)

        assert output.seal() == 2
        assert written(output) == [0, 1]
    with opened(tmp_path) as output:
        assert output.done.tolist() == [True, True] + [False] * 8


def test_what_a_dead_run_committed_is_taken_over(tmp_path: Path) -> None:
    with opened(tmp_path) as output:
        land(output.landing, "u_000000", [4, 5])
    with opened(tmp_path) as output:
        assert written(output) == [4, 5]
        assert not list((tmp_path / "landing").glob("*.fenced"))


def test_a_block_that_is_being_written_again_is_left_until_it_is_done(tmp_path: Path) -> None:
    with opened(tmp_path) as output:
        land(output.landing, "u_000000", [0, 1])
        # The writer was killed after its commit; the one that follows has begun.
        land(output.landing, "u_000000", [0, 1], pending=True)

        assert output.seal() == 0
        Path(output.landing.checkpoint, "u_000000.pending.parquet").unlink()
        assert output.seal() == 2


def test_a_checkpoint_without_its_data_does_not_count(tmp_path: Path) -> None:
    with opened(tmp_path) as output:
        land(output.landing, "u_000000", [0, 1])
        torn = Path(output.landing.data, "u_000000-0.parquet")
        torn.write_bytes(torn.read_bytes()[:40])

        assert output.seal() == 0
        assert not output.done.any()


@settings(deadline=None, max_examples=25)
@given(blocks=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), max_size=5))
def test_no_answer_is_written_twice_whatever_lands(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[list[int]]
) -> None:
    with opened(tmp_path_factory.mktemp("out")) as output:
        for number, orders in enumerate(blocks):
            land(output.landing, f"u_{number:06d}", orders)
            output.seal()

        assert written(output) == sorted({order for orders in blocks for order in orders})


def test_a_process_of_a_dead_run_can_no_longer_commit_nor_ask(tmp_path: Path) -> None:
    with opened(tmp_path) as before:
        zombie = before.landing
        land(zombie, "u_000000", [0, 1], pending=True)
        assert zombie.is_going()
    with opened(tmp_path) as output:
        assert not zombie.is_going()
        with pytest.raises(FileNotFoundError):
            os.rename(
                f"{zombie.checkpoint}/u_000000.pending.parquet",
                f"{zombie.checkpoint}/u_000000.parquet",
            )
        assert not written(output)


def test_a_changed_setting_is_refused_and_named(tmp_path: Path) -> None:
    opened(tmp_path).close()

    with pytest.raises(OutputError, match=r"temperature: 1\.0 then, 0\.5 now"):
        opened(tmp_path, temperature=0.5)
    opened(tmp_path).close()


def test_a_second_run_is_told_who_has_the_folder(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    held, done = spawn.Event(), spawn.Event()
    holder = spawn.Process(target=hold, args=(tmp_path, SETTINGS, held, done))
    holder.start()
    assert held.wait(60)
    try:
        with pytest.raises(OutputError, match=f"is being written by process {holder.pid} on"):
            opened(tmp_path)
    finally:
        done.set()
        holder.join()
    opened(tmp_path).close()


def test_a_journal_is_read_up_to_the_last_whole_line_and_by_later_runs_too(tmp_path: Path) -> None:
    with opened(tmp_path) as output:
        journal = journal_of(output.landing, 0, "one")
        journal.add(b'{"key":"a"}')
        journal.add(b'{"key":"b"}')
        journal.close()
        with next(Path(output.landing.journal).iterdir()).open("ab") as file:
            file.write(b'{"key":"c')
        other = journal_of(output.landing, 4, "one")
        other.add(b'{"key":"d"}')
        other.close()
    with opened(tmp_path) as output:
        earlier = output.landing.earlier
        assert [json.loads(line)["key"] for line in journalled(earlier, 0)] == ["a", "b"]
        assert [json.loads(line)["key"] for line in journalled(earlier, 4)] == ["d"]


def test_a_journal_is_let_go_of_when_all_its_answers_are_written(tmp_path: Path) -> None:
    with opened(tmp_path) as output:
        for start in (0, 4, 8):
            journal_of(output.landing, start, "one").close()
        land(output.landing, "u_000000", [0, 1, 2, 3, 4, 5, 6])
        output.seal()
        output.forget_journals([0, 4, 8])

        left = sorted(path.name for path in Path(output.landing.journal).iterdir())
        assert [name.partition("-")[0] for name in left] == ["000000000004", "000000000008"]


def test_a_journal_without_room_keeps_its_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as output:
        journal = journal_of(output.landing, 0, "one")
        journal.add(b'{"key":"a"}')
        real = os.write
        calls = []

        def little_room(handle: int, data: bytes) -> int:
            calls.append(len(data))
            if len(calls) > 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(handle, data[:3])

        monkeypatch.setattr(os, "write", little_room)
        with pytest.raises(OSError, match="No space left"):
            journal.add(b'{"key":"b"}')
        monkeypatch.undo()
        journal.add(b'{"key":"c"}')
        journal.close()
        mine = journalled(output.landing.journal, 0)
        assert [json.loads(line)["key"] for line in mine] == ["a", "c"]


def test_a_damaged_file_of_answers_is_named(tmp_path: Path) -> None:
    with opened(tmp_path) as output:
        land(output.landing, "u_000000", [0])
        output.seal()
        file = next(output.answers.glob("*.parquet"))
    file.write_bytes(b"PAR1 no more")

    with pytest.raises(OutputError, match=f"damaged file, answers/{file.name}"):
        opened(tmp_path)
