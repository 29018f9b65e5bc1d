"""The command that labels: planned, asked, resumed, written."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from lab.harness.labelling import steady, tally
from lab.tests.label.making import episode

from agora_lab.cli.label import label
from agora_lab.envs.data import DataError, data_file
from agora_lab.label.plan import read_plan
from agora_lab.labels import read_labels


def run(*args: object) -> Result:
    return CliRunner().invoke(label, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded conversations of seven tool calls each."""
    episodes = []
    for task in range(4):
        messages: list[dict[str, object]] = [{"role": "user", "content": f"go {task}"}]
        for n in range(7):
            function = {"name": "look", "arguments": json.dumps({"of": n})}
            call = {"id": f"c{n}", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"K{task}{n}"})
        episodes.append({"task_id": task, "traj": messages})
    path = tmp_path_factory.mktemp("log") / "log.json"
    path.write_text(json.dumps(episodes))
    return path


def test_an_estimate_says_what_it_will_take_and_asks_nothing(log: Path, tmp_path: Path) -> None:
    options = ("--trajectories", 3, "--pairs", 5, "--stop", r"\n", "--estimate")
    result = run(log, "--out", tmp_path, "--backbone", "openai:gpt-4o", *options)

    assert result.exit_code == 0, result.output
    for part in ("15 pairs in 3 trajectories", "30 requests", "prompt tokens", "$"):
        assert part in result.output
    settings = read_plan(tmp_path).settings
    assert (settings.samples, settings.temperature, settings.stop) == (8, 1.0, ("\n",))


def test_labels_are_asked_for_once_and_written_soft_and_hard(log: Path, tmp_path: Path) -> None:
    options = ("--out", tmp_path, "--backbone", "openai:steady", "--trajectories", 2)
    with steady(0) as address:
        url = ("--base-url", f"{address}/v1")
        first = run(log, *options, *url)
        again = run("--out", tmp_path, *url)
        calls = tally(address)["calls"]

    assert first.exit_code == again.exit_code == 0, first.output
    pairs = read_plan(tmp_path).summary.pairs
    assert calls == 2 * pairs
    soft, hard = (read_labels(tmp_path / f"{name}.parquet") for name in ("soft", "hard"))
    assert len(soft) == len(hard) == pairs
    assert {one.label for one in soft} <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert {one.label for one in hard} <= {0.0, 1.0}
    assert json.loads((tmp_path / "labels.json").read_text())["pairs"] == pairs


def test_a_plan_is_resumed_with_its_own_settings_only(log: Path, tmp_path: Path) -> None:
    assert run(log, "--out", tmp_path, "--backbone", "openai:gpt-4o", "--estimate").exit_code == 0

    other = run(log, "--out", tmp_path, "--backbone", "openai:gpt-5", "--estimate")
    nothing = run("--out", tmp_path / "new", "--estimate")

    assert "planned with other settings" in other.output
    assert "holds no plan; name SOURCES and --backbone" in nothing.output


@pytest.fixture
def played(tmp_path: Path) -> Path:
    """A run of WebShop in which an agent looked and looked."""
    for package in ("bm25s", "Stemmer", "rapidfuzz"):
        pytest.importorskip(package, reason="WebShop needs the extra `environments`")
    try:
        data_file("webshop/items_shuffle_1000.json", origin="princeton-nlp/WebShop")
    except DataError as error:
        pytest.skip(str(error))
    folder = tmp_path / "played"
    folder.mkdir()
    records = [episode(["page"] * 6, task=f"t{n}", environment="webshop") for n in range(2)]
    lines = [json.dumps(one.to_dict()) + "\n" for one in records]
    (folder / "episodes.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("split", "code"), [("train", 0), ("test", 1)])
def test_a_run_of_the_train_split_is_labelled_and_one_of_the_test_split_is_not(
    played: Path, tmp_path: Path, split: str, code: int
) -> None:
    settings = {"experiment": {"environments": ["webshop"], "split": split}}
    (played / "settings.json").write_text(json.dumps(settings), encoding="utf-8")

    result = run(played, "--out", tmp_path / "out", "--backbone", "openai:gpt-4o", "--estimate")

    assert result.exit_code == code, result.output
    assert ("must not be trained on" in result.output) == bool(code)
    if not code:
        # Without the examples of its world the conversation has 14 messages.
        assert len(next(iter(read_plan(tmp_path / "out").shards())).case.messages) > 14
