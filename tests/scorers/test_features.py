import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import Budget, Compressor, Rung
from agora.core.reading.counted import shape
from agora.core.trajectory import Anchor, Call, Step
from agora.errors import BundleError
from agora.scorers import load_scorer, structure
from agora.scorers.bundle import FORMAT, MANIFEST, Bundle, read_bundle
from agora.scorers.features import SHIPPED, SHIPPED_SHA256, FeaturesScorer
from agora.scorers.lexical import LexicalScorer
from agora.scorers.recency import RecencyScorer
from agora.scorers.structure import FEATURES, VALUES, features
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


@given(st.lists(st.tuples(texts, texts), max_size=12), texts, texts)
def test_every_feature_of_every_step_is_a_small_whole_number(
    parts: list[tuple[str, str]], task: str, now: str
) -> None:
    rows = features(Anchor(task, now), make_steps(*parts))

    assert len(rows) == len(parts)
    for row in rows:
        assert len(row) == len(FEATURES)
        assert all(type(value) is int and 0 <= value < VALUES for value in row)


@given(st.lists(st.tuples(texts, texts), max_size=12), texts, texts)
def test_scores_lie_between_0_and_1(parts: list[tuple[str, str]], task: str, now: str) -> None:
    scores = FeaturesScorer().score(Anchor(task, now), make_steps(*parts))

    assert len(scores) == len(parts)
    assert all(0 <= score <= 1 for score in scores)


def test_the_shipped_scorer_passes_the_check_of_all_scorers() -> None:
    check_scorer(load_scorer("features"))


def test_what_one_step_alone_brought_counts_for_it() -> None:
    steps = make_steps(
        ("look", "HAT136 HAT200"), ("look", "HAT200"), ("go", ""), ("take HAT200", "")
    )

    first = dict(zip(FEATURES, features(Anchor("", ""), steps)[0], strict=True))

    assert first["only_ids"] == 1
    assert first["ids"] == 2
    assert first["used_later"] == 1


def test_what_an_observation_repeats_of_its_own_action_it_did_not_bring() -> None:
    steps = make_steps(("look for HAT136", "no HAT136 here but HAT200"), ("go", ""), ("go", ""))

    first = dict(zip(FEATURES, features(Anchor("", ""), steps)[0], strict=True))

    assert first["ids"] == 2
    assert first["only_ids"] == 1


def test_a_word_of_the_anchor_counts_for_the_one_step_outside_the_floor_that_has_it() -> None:
    steps = make_steps(
        ("look", "kettle on a shelf"), ("look", "shelf"), ("look", "lamp"), ("look", "lamp")
    )

    rows = features(Anchor("", "bring the kettle from the shelf by the lamp"), steps)

    at = FEATURES.index("only_anchor_words")
    assert [row[at] for row in rows] == [1, 0, 0, 0]


histories = st.lists(st.tuples(texts, texts), max_size=12)


@given(histories, st.lists(st.tuples(histories, st.integers(0, 12))), texts)
def test_features_do_not_depend_on_what_was_asked_before(
    parts: list[tuple[str, str]], others: list[tuple[list[tuple[str, str]], int]], now: str
) -> None:
    anchor = Anchor("", now)
    _forget()
    alone = features(anchor, make_steps(*parts))

    for other, size in others:
        features(anchor, make_steps(*other))
        features(anchor, make_steps(*parts[:size]))

    assert features(anchor, make_steps(*parts)) == alone


def test_features_are_the_same_when_there_is_no_room_to_remember_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = make_steps(*((f"get {n}", f"HAT{n % 7} key {n} " * 9) for n in range(40)))
    growing = [features(Anchor("", ""), steps[:size]) for size in range(41)]

    for room in (0, 30, 300):
        monkeypatch.setattr(structure, "_steps", structure._Steps(10 * room))
        monkeypatch.setattr(structure, "_tallies", structure._Tallies(room))
        assert [features(Anchor("", ""), steps[:size]) for size in range(41)] == growing


def _forget() -> None:
    structure._steps = structure._Steps(4_000_000)
    structure._tallies = structure._Tallies(200_000)


def test_calls_are_told_apart_by_their_tool() -> None:
    steps = [
        step._replace(calls=tuple(Call(name, "{}") for name in names))
        for step, names in zip(
            make_steps(("a", ""), ("b", ""), ("a", "")),
            (("get_x",), ("put_y", "put_z"), ("get_x",)),
            strict=True,
        )
    ]

    rows = [dict(zip(FEATURES, row, strict=True)) for row in features(Anchor("", ""), steps)]

    assert [row["kind"] for row in rows] == [1, 2, 1]
    assert [row["same_call_later"] for row in rows] == [1, 0, 0]
    assert [row["first_of_tool"] for row in rows] == [1, 1, 0]


def test_a_shape_is_how_a_name_is_built() -> None:
    assert shape("HAT136") == shape("ABC9")
    assert shape("HAT136") != shape("hat136")


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


words = st.sampled_from(["HAT136", "credit_card_123", "2024-05-20", "error", "/a/b.py", "key 7"])


@given(st.integers(1, 10), st.lists(words, max_size=60))
def test_no_observation_can_have_the_floor_elided(at: int, stuffed: list[str]) -> None:
    messages = long_chat()
    messages[2 * at]["content"] = " ".join(stuffed)
    compressor = Compressor(
        scorer=load_scorer("features"), budget=Budget(keep_ratio=0.2), schedule="every_call"
    )

    compression = compressor.compress(messages)

    kept = [d.number for d in compression.decisions if d.outcome != "elided"]
    assert {11, 12} <= set(kept)
    assert compression.messages[0]["content"].startswith("find the key")
    assert compression.messages[-4:] == messages[-4:]
