import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.commands import run
from tests.integrations.environments import REAL, RESULTS
from tests.integrations.forced import heard_call
from tests.integrations.frameworks import FRAMEWORKS, ROOT, Framework
from tests.integrations.pages import FOLDER, real_lines, real_table, table

SOURCES = ROOT / "src" / "agora" / "integrations"
SHARED = ("client_requests.py", "compress_chat.py", "in_experiment.py", "items.py", "wire.py")
"""What the integrations stand on, and no integration itself."""
ENVIRONMENTS = [(framework, end) for framework in FRAMEWORKS for end in framework.ends()]


def results(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text())
    return found


def name_of(value: object) -> str:
    return value.name if isinstance(value, Framework) else str(value)


@pytest.mark.parametrize(("framework", "end"), ENVIRONMENTS, ids=name_of)
def test_every_release_of_an_environment_is_locked(framework: Framework, end: str) -> None:
    locked = dict(line.split("==") for line in framework.lock(end).read_text().split())

    assert framework.packages[0] in locked
    assert "pytest" in locked
    assert not {"agora-context", "torch"} & set(locked)


@pytest.mark.parametrize(("framework", "end"), ENVIRONMENTS, ids=name_of)
def test_the_table_speaks_of_what_is_locked(framework: Framework, end: str) -> None:
    locked = dict(line.split("==") for line in framework.lock(end).read_text().split())
    [result] = [r for r in results(RESULTS) if (r["framework"], r["end"]) == (framework.name, end)]

    assert result["ok"]
    assert result["versions"] == {n: locked[n] for n in framework.packages if n in locked}


def test_the_pages_say_what_the_run_files_say() -> None:
    ran = results(REAL)

    made = table(results(RESULTS)) + real_table(ran)
    assert (FOLDER / "compatibility.md").read_text() == made
    for name, line in real_lines(ran).items():
        assert line in (FOLDER / f"{name}.md").read_text().split("\n")


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=name_of)
def test_an_integration_is_one_short_file_with_an_example(framework: Framework) -> None:
    source = SOURCES / f"{framework.name}.py"

    # 120 before models bound thinking: telling a framework's own thinking apart takes some lines.
    assert len(source.read_text().splitlines()) <= 190
    assert (ROOT / "examples" / "integrations" / f"with_{framework.name}.py").exists()


def test_no_integration_is_left_out() -> None:
    files = {path.name for path in SOURCES.glob("*.py")} - {"__init__.py", *SHARED}

    assert files == {f"{framework.name}.py" for framework in FRAMEWORKS}


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    started = time.monotonic()
    mark = tmp_path / "late"
    ended = run(["sh", "-c", f"(sleep 3; touch {mark}) & echo began; sleep 60"], seconds=1)

    assert time.monotonic() - started < 30
    assert not ended.ok
    assert ended.output == "began\n\nkilled after 1 s"
    time.sleep(3)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('```json\n{"name": "read_file", "arguments": {"name": "a"}}\n```', '{"name": "a"}'),
        ('{"name": "rm", "arguments": {}}', None),
        ('{"name": "read_file"}', None),
        ("I would read a.", None),
        ("{ and no more", None),
        ("[1]", None),
    ],
)
def test_a_call_among_words_is_heard_if_it_is_one(text: str, expected: str | None) -> None:
    heard = heard_call(text, ["read_file"])

    assert (heard or {}).get("arguments") == expected
