import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import Compressor, Rung
from agora.core.trajectory import Anchor, Step
from agora.errors import BundleError
from agora.scorers import load_scorer
from agora.scorers.bundle import FORMAT, MANIFEST, Bundle, read_bundle
from agora.scorers.features import SHIPPED, SHIPPED_SHA256, FeaturesScorer
from agora.scorers.lexical import LexicalScorer
from agora.scorers.recency import RecencyScorer
from agora.scorers.tables import Table, Tables, read, write
from agora.testing import check_scorer

SMALL = Tables(
    features=("ids", "ago"),
    values=2,
    bias=0.5,
    tables=(Table(0, 1, ((0.0, 1.0), (-1.0, 0.25))), Table(1, 1, ((2.0, 0.0), (0.0, -2.0)))),
    slope=2.0,
    intercept=-1.0,
)


def make_steps(*texts: tuple[str, str]) -> list[Step]:
    return [
        Step(number=n, action=action, observation=observation, tokens=len(observation))
        for n, (action, observation) in enumerate(texts, start=1)
    ]


texts = st.text() | st.sampled_from(["HAT136 2024-05-20", "error: no such file", "apple 1", ""])


def test_the_shipped_scorer_passes_the_check_of_all_scorers() -> None:
    check_scorer(load_scorer("features"))


def test_scores_are_the_same_in_another_process_with_other_hashes() -> None:
    program = """
from agora.core.trajectory import Anchor, Step
from agora.scorers import load_scorer, structure
steps = [Step(number=n, action=f"get {n}", observation=f"HAT{n % 3} key {n} /a/b{n}.py", tokens=9)
         for n in range(1, 30)]
print(load_scorer("features").score(Anchor("find key 7", "HAT1 key 3"), steps))
"""
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(said) == 1


def test_tables_come_back_from_their_file_as_they_were() -> None:
    text = write(SMALL, {"trees": 3})

    assert read(text, features=("ids", "ago"), values=2) == SMALL


def test_tables_add_up_as_they_stand() -> None:
    assert SMALL.margins([(0, 1), (0, 1)]) == [2.5, -1.25]
    assert SMALL.margins([(), ()]) == []
    assert SMALL.probabilities([(0,), (0,)]) == [pytest.approx(1 / (1 + 2.718281828459045**-4))]


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 2), max_size=9), st.integers(0, 11))
def test_tables_add_up_one_by_one_whatever_is_looked_up_together(
    rows: list[tuple[int, int]], count: int
) -> None:
    tables = replace(SMALL, tables=(SMALL.tables * 6)[:count])
    columns = list(zip(*rows, strict=True)) or [(), ()]

    sums = []
    for row in rows:
        total = tables.bias
        for table in tables.tables:
            total += table.values[row[table.first]][row[table.second]]
        sums.append(total)

    assert tables.margins(columns) == sums


def _damaged(**changes: object) -> str:
    return json.dumps({**json.loads(write(SMALL, {})), **changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        _damaged(format="other"),
        _damaged(features=["ids"]),
        _damaged(values=3),
        _damaged(bias=float("nan")),
        _damaged(bias=True),
        _damaged(bias="0"),
        _damaged(slope=1e9),
        _damaged(tables=None),
        _damaged(tables=[3]),
        _damaged(tables=[{"of": [0, 7], "rows": [[0, 0], [0, 0]]}]),
        _damaged(tables=[{"of": [0], "rows": [[0, 0], [0, 0]]}]),
        _damaged(tables=[{"of": [0, 1], "rows": [[0, 0]]}]),
        _damaged(tables=[{"of": [0, 1], "rows": [[0, 0], [0]]}]),
        _damaged(tables=[{"of": [0, 1], "rows": [[0, 0], [0, "1"]]}]),
    ],
)
def test_tables_that_are_not_right_are_refused(text: str) -> None:
    with pytest.raises(BundleError, match="train or install them again"):
        read(text, features=("ids", "ago"), values=2)


def make_bundle(folder: Path, **manifest: object) -> Path:
    shipped = read_bundle(SHIPPED)
    (folder / "weights.json").write_bytes(shipped.read("weights.json"))
    hashes = {"weights.json": shipped.files["weights.json"]}
    said = {"format": FORMAT, "scorer": "features", "files": hashes}
    (folder / MANIFEST).write_text(json.dumps({**said, **manifest}))
    return folder


def test_a_bundle_scores_as_what_it_was_copied_from(tmp_path: Path) -> None:
    steps = make_steps(("look", "HAT136"), ("go", "key 7"))
    anchor = Anchor("find it", "key 7")

    assert load_scorer(make_bundle(tmp_path)).score(anchor, steps) == FeaturesScorer().score(
        anchor, steps
    )


def long_chat() -> list[dict[str, object]]:
    messages: list[dict[str, object]] = [{"role": "user", "content": "find the key"}]
    for n in range(12):
        function = {"name": "look", "arguments": f'{{"box": "B{n}00"}}'}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = f"box B{n}00 holds K{n}11 " + "and dust " * 40
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
    return messages


@pytest.mark.parametrize("at", [0, 1_000, -2])
def test_a_flipped_byte_in_the_weights_ends_on_the_next_rung(tmp_path: Path, at: int) -> None:
    folder = make_bundle(tmp_path)
    data = bytearray((folder / "weights.json").read_bytes())
    data[at] ^= 1
    (folder / "weights.json").write_bytes(data)
    compressor = Compressor(scorer=load_scorer(folder), schedule="every_call")

    compression = compressor.compress(long_chat())

    assert compression.changed
    assert compression.rung is Rung.RULE
    assert "SHA-256" in compression.detail


def test_weights_that_are_gone_are_an_error_that_says_so(tmp_path: Path) -> None:
    gone = Bundle(folder=tmp_path, scorer="features", files={"weights.json": "0" * 64})

    with pytest.raises(BundleError, match="cannot be read"):
        gone.read("weights.json")
    with pytest.raises(BundleError, match="no hash"):
        gone.read("other.json")


def test_names_that_are_known_give_scorers(tmp_path: Path) -> None:
    assert isinstance(load_scorer("features"), FeaturesScorer)
    assert isinstance(load_scorer("lexical"), LexicalScorer)
    assert isinstance(load_scorer("recency"), RecencyScorer)
    with pytest.raises(BundleError, match="no folder"):
        load_scorer(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ({"format": "other"}, "format"),
        ({"scorer": "oracle"}, "kind 'oracle'"),
        ({"scorer": None}, "what scorer"),
        ({"settings": []}, "what scorer"),
        ({"files": None}, "hashes"),
        ({"files": {"../weights.json": "0"}}, "hashes"),
        ({"files": {"..": "0"}}, "hashes"),
        ({"files": {"weights.json": 0}}, "hashes"),
    ],
)
def test_a_manifest_that_is_not_right_ends_on_the_next_rung(
    tmp_path: Path, manifest: dict[str, object], said: str
) -> None:
    def found() -> str:
        compressor = Compressor(scorer=load_scorer(tmp_path), schedule="every_call")
        compression = compressor.compress(long_chat())
        assert compression.changed
        assert compression.rung is Rung.RULE
        return compression.detail

    make_bundle(tmp_path, **manifest)
    assert said in found()
    (tmp_path / MANIFEST).write_text("{")
    assert "format" in found()
    (tmp_path / MANIFEST).write_text(" " * 100_001)
    assert "more than" in found()


def test_the_shipped_weights_are_small_and_pinned_through_their_manifest(tmp_path: Path) -> None:
    shipped = read_bundle(SHIPPED, sha256=SHIPPED_SHA256)

    assert len(shipped.read("weights.json")) <= 200_000
    for name in shipped.files:
        shipped.read(name)
    with pytest.raises(BundleError, match="pinned"):
        read_bundle(SHIPPED, sha256="0" * 64)
