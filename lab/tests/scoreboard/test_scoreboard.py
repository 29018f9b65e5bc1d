import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from agora import sheet_for
from agora_lab.cli.lab import lab
from agora_lab.scoreboard.report import STORED, above, board, complete, publish
from agora_lab.scoreboard.run import (
    RUN,
    Contender,
    Task,
    contenders,
    play,
    prompts,
    tasks,
    write_rows,
)
from agora_lab.scoreboard.sessions import Session, needs, refusals
from agora_lab.scoreboard.shapes import estimate, from_anthropic, from_commands, to_anthropic
from agora_lab.scoreboard.simulate import OTHERS, OWN, Row, billed_dollars
from agora_lab.scoreboard.worker import prepare

MODEL = "claude-opus-4-5"
FIRST = '''"""Keeps the first message and the newest exchange."""

TITLE = "first and last"
SETTINGS = {"default": {}}


def prepare(settings):
    return lambda messages, about: messages[:1] + messages[-2:]
'''
Message = dict[str, Any]


def step(number: int, path: str, result: str) -> list[Message]:
    arguments = json.dumps({"path": path}, ensure_ascii=False)
    function = {"name": "read", "arguments": arguments}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
    ]


def session(**fields: Any) -> Session:
    """Return a session of six calls; the last action needs a name that the first result showed."""
    messages: list[Message] = [{"role": "user", "content": "Find the broken module."}]
    messages += step(1, "list.txt", "src/deep_module.py " + "filler " * 3_000)
    for number in range(2, 6):
        messages += step(number, f"notes_{number}.txt", f"nothing in part {number}")
    messages += step(6, "src/deep_module.py", "found")[:1]
    calls = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    own: dict[str, Any] = {
        "id": "abc",
        "data": "claude-code",
        "model": MODEL,
        "format": "anthropic",
        "messages": messages,
        "calls": calls,
        "tokens": [estimate(message) for message in messages],
        "before": 10_000,
        "needs": needs(messages, calls),
    }
    return Session(**{**own, **fields})


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Return a contender of somebody else: one file."""
    path = tmp_path / "first_last.py"
    path.write_text(FIRST)
    return path


def play_on(contender: Contender, played: Session, tmp_path: Path) -> Row:
    path = played.write(tmp_path)
    return play(Task(contender=contender, session=path, data=played.data, id=played.id))


def everything() -> Contender:
    [contender] = contenders(["everything"])
    return contender


def test_sending_everything_costs_what_its_reads_and_writes_cost(tmp_path: Path) -> None:
    played = session()

    row = play_on(everything(), played, tmp_path)

    sheet = sheet_for(MODEL)
    sizes = [played.before + sum(played.tokens[:call]) for call in played.calls]
    reads = [0, *sizes[:-1]]
    tokens = [r * sheet.read + (s - r) * sheet.write for r, s in zip(reads, sizes, strict=True)]
    assert row.dollars[OWN] == pytest.approx(sum(tokens) * sheet.input / 1e6)
    assert row.names == (1, 1, 0, 0)
    assert not row.edited
    assert row.highest == pytest.approx(1.0)
    assert set(row.dollars) == {OWN, *OTHERS}


def test_a_cache_that_usage_says_was_lost_is_lost_for_every_contender(tmp_path: Path) -> None:
    warm = play_on(everything(), session(), tmp_path)
    cold = play_on(everything(), session(lost={3: 10_000}), tmp_path)

    assert cold.dollars[OWN] > warm.dollars[OWN]
    assert cold.names == warm.names


def test_a_file_adds_a_contender_and_its_losses_are_counted(theirs: Path, tmp_path: Path) -> None:
    [contender] = contenders([str(theirs)])

    row = play_on(contender, session(), tmp_path)

    assert row.problem == ""
    assert row.edited
    assert row.broke > 0
    assert row.names[:2] == (1, 0)
    assert row.lost_text == 0
    assert row.refused == 0


def test_a_prompt_without_a_user_text_or_with_an_orphan_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "orphans.py"
    file.write_text(FIRST.replace("messages[:1] + messages[-2:]", "messages[-1:]"))
    [contender] = contenders([str(file)])

    row = play_on(contender, session(), tmp_path)

    assert row.lost_text == 5
    assert row.refused == 5
    assert row.rules


def test_a_contender_that_raises_has_its_problem_in_the_row(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(FIRST.replace("messages[:1] + messages[-2:]", "messages[99]['x']"))
    [contender] = contenders([str(file)])

    row = play_on(contender, session(), tmp_path)

    assert "IndexError" in row.problem


def test_a_contender_sends_the_same_from_an_environment_of_its_own(theirs: Path) -> None:
    played = session()
    [contender] = contenders([str(theirs)])
    here = [sent.prompt for sent, _ in prompts(contender, played)]

    answer = prepare({"file": str(contender.file), "settings": {}})(
        {
            "messages": played.messages,
            "calls": played.calls,
            "about": {"tokens": played.tokens, "before": 0, "scale": 1},
        }
    )

    there: list[list[int]] = []
    for same, rest in answer["prompts"]:
        there.append([*(there[-1][:same] if there else ()), *rest])
    assert there == here


def test_a_hook_that_keeps_its_edits_is_shown_its_own_prompt(tmp_path: Path) -> None:
    file = tmp_path / "keeps.py"
    file.write_text(
        "TITLE = 'drops the oldest result once'\nKEEPS = True\nSETTINGS = {'default': {}}\n"
        "def prepare(settings):\n"
        "    def edit(messages, about):\n"
        "        return messages[:1] + messages[3:] if about['number'] == 2 else messages\n"
        "    return edit\n"
    )
    [contender] = contenders([str(file)])

    row = play_on(contender, session(), tmp_path)

    assert row.broke == 1
    assert row.names == (1, 0, 1, 0)


def test_a_run_goes_on_with_what_is_missing(theirs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    path = session().write(run)
    chosen = [everything(), *contenders([str(theirs)])]
    todo = tasks(run, [path], chosen)

    list(write_rows(run, iter([play(todo[0])])))

    assert [task.contender.name for task in todo] == ["everything", "first_last"]
    assert [task.contender.name for task in tasks(run, [path], chosen)] == ["first_last"]


def rows() -> list[dict[str, Any]]:
    """Return rows of two sessions: ours saves a fifth, another one more at as many names."""
    shares = {("everything", "default"): 1.0, ("agora_default", "default"): 0.8, ("x", "y"): 0.7}
    made = [
        Row(
            contender=name,
            setting=setting,
            session=f"s{number}",
            data="claude-code",
            calls=10,
            dollars={OWN: share, **dict.fromkeys(OTHERS, share)},
            billed=1.0,
            names=(4, 4, 2, 2),
            edited=share < 1,
            highest=1.02,
        )
        for (name, setting), share in shares.items()
        for number in range(2)
    ]
    return json.loads(json.dumps([asdict(row) for row in made]))  # type: ignore[no-any-return]


def test_lines_are_compared_with_sending_everything_on_the_same_sessions() -> None:
    made = board(rows(), {"eligible": 2})
    found = {line.contender: line for line in made.lines}

    assert found["agora_default"].saved[0] == pytest.approx(0.2)
    assert found["agora_default"].cells["break-even, extra calls"] == "+25%"
    assert found["x"].cells["minus AGORA's default"] == "+10.0 [10, 10]"
    assert found["x"].cells["n"] == "2"
    assert found["everything"].untouched == 1
    assert made.accuracy == pytest.approx(1.0)
    assert made.recordings == "eligible: 2"
    assert [line.contender for line in above(made)] == ["x"]


def test_a_contender_that_failed_everywhere_has_its_problem_on_the_board() -> None:
    failed = [row | {"problem": "no"} if row["contender"] == "x" else row for row in rows()]

    [line] = (line for line in board(failed, {}).lines if line.contender == "x")

    assert line.problem == "2 sessions failed: no"
    assert not line.cells
    assert above(board(failed, {})) == []


def write_run(tmp_path: Path, rows: list[dict[str, Any]]) -> Path:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sample = {"claude-code": {"drawn": [], "rules": {"eligible": 2}}}
    absent = {"z | default": "</script> needs another Python"}
    (tmp_path / RUN).write_text(json.dumps({"sample": sample, "absent": absent}))
    return tmp_path / "rows.jsonl"


def test_stored_rows_give_the_same_table_and_page(tmp_path: Path) -> None:
    store = tmp_path / "stored"
    publish(write_run(tmp_path, rows()), store=store, page=tmp_path / "a.html", evidence=None)

    result = CliRunner().invoke(
        lab,
        ["scoreboard", "--rows", str(store / STORED), "--page", str(tmp_path / "b.html")],
    )

    assert result.exit_code == 0, result.output
    assert "Beaten in both by x, y" in " ".join(result.output.split())
    page = (tmp_path / "a.html").read_text()
    assert page == (tmp_path / "b.html").read_text()
    assert "</script> needs" not in page


def test_a_table_has_the_sessions_that_every_contender_was_played_on() -> None:
    stopped = [row for row in rows() if (row["contender"], row["session"]) != ("x", "s1")]

    assert {row["session"] for row in complete(rows())} == {"s0", "s1"}
    assert {row["session"] for row in complete(stopped)} == {"s0"}


def test_the_evidence_page_keeps_its_sentences(tmp_path: Path) -> None:
    page = tmp_path / "scoreboard.md"
    page.write_text(
        "Before.\n<!-- made by agora lab scoreboard: begin -->\nreplaced\n<!-- end -->\nAfter."
    )

    publish(write_run(tmp_path, rows()), store=None, page=tmp_path / "a.html", evidence=page)

    text = page.read_text()
    assert text.startswith("Before.")
    assert text.endswith("After.")
    assert "replaced" not in text
    assert "| **AGORA, default** |" in text


def test_rows_that_are_none_say_so(tmp_path: Path) -> None:
    path = write_run(tmp_path, [])

    result = CliRunner().invoke(lab, ["scoreboard", "--rows", str(path)])

    assert result.exit_code == 1
    assert "there are no rows" in result.output


def test_a_run_is_drawn_in_thirds_that_every_contender_plays(theirs: Path, tmp_path: Path) -> None:
    paths = [session(id=f"s{at}").write(tmp_path) for at in range(6)]

    todo = tasks(tmp_path, paths, [*contenders([str(theirs)]), everything()])

    order = [(task.contender.name, task.id) for task in todo]
    assert order[:4] == [
        ("everything", "s0"),
        ("everything", "s1"),
        ("first_last", "s0"),
        ("first_last", "s1"),
    ]
    assert len(order) == 12


def test_commands_of_an_agent_that_acts_by_text_become_calls() -> None:
    chat = from_commands(
        [
            {"role": "user", "content": "Fix it."},
            {"role": "assistant", "content": "THOUGHT: look\n```bash\ncat a.py\n```"},
            {"role": "user", "content": "<output>x</output>"},
            {"role": "assistant", "content": "Done."},
        ]
    )

    assert [message["role"] for message in chat] == ["user", "assistant", "tool", "assistant"]
    assert json.loads(chat[1]["tool_calls"][0]["function"]["arguments"]) == {"command": "cat a.py"}
    assert refusals("openai", chat) == []


def test_billed_dollars_price_each_lifetime() -> None:
    sheet = sheet_for(MODEL)

    found = billed_dollars(session(billed=[[10, 20, 30, 40]]))

    hour = sheet.for_ttl("1h").write
    tokens = 10 + 20 * sheet.read + 30 * sheet.write + 40 * hour
    assert found == pytest.approx(tokens * sheet.input / 1e6)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS, st.booleans()), min_size=1, max_size=6))
def test_a_chat_survives_the_way_to_anthropic_and_back(turns: list[tuple[str, str, bool]]) -> None:
    chat: list[Message] = [{"role": "user", "content": "Go."}]
    for number, (spoken, result, asks) in enumerate(turns):
        answer, observed = step(number, spoken, result)
        chat += [{**answer, "content": spoken}, observed]
        if asks:
            chat.append({"role": "user", "content": spoken})

    _, native = to_anthropic(chat)

    assert from_anthropic(native)[0] == chat


SHORTENS = '''"""Shortens results as they come, and drops most of them at one call."""

TITLE = "shortens"
PURE = True
SETTINGS = {"default": {}, "drops": {"at": 20}}
ASKED = []


def prepare(settings):
    def edit(messages, about):
        ASKED.append(len(messages))
        if len(messages) == settings.get("at"):
            return messages[:1] + messages[-2:]
        return [{**m, "content": m["content"][:9]} if m["role"] == "tool" else m for m in messages]

    return edit
'''


@pytest.mark.parametrize("setting", ["default", "drops"])
@pytest.mark.parametrize("steps", [1, 2, 7, 8, 9, 16, 23])
def test_a_pure_hook_is_asked_less_often_and_sends_the_same(
    setting: str, steps: int, tmp_path: Path
) -> None:
    (tmp_path / "often.py").write_text(SHORTENS.replace("PURE = True\n", ""))
    (tmp_path / "pure.py").write_text(SHORTENS)
    messages: list[Message] = [{"role": "user", "content": "Find it."}]
    for number in range(1, steps + 1):
        messages += step(number, f"{number}.txt", f"what the file number {number} has")
    calls = list(range(1, len(messages), 2))
    played = session(messages=messages, calls=calls, tokens=[9] * len(messages), needs=[])
    often, pure = (contenders([str(tmp_path / f"{name}.py")]) for name in ("often", "pure"))
    at = [one.setting for one in often].index(setting)

    every, few = (
        [[table[number] for number in sent.prompt] for sent, table in prompts(one[at], played)]
        for one in (often, pure)
    )

    assert len(every) == len(calls)
    assert few == every


@pytest.mark.parametrize(("edit", "stale"), [("messages", 0), ("messages[:1] + messages[3:]", 3)])
def test_thinking_behind_another_prompt_than_its_own_is_counted(
    edit: str, stale: int, tmp_path: Path
) -> None:
    file = tmp_path / "late.py"
    body = f"{edit} if about['number'] > 2 else messages"
    file.write_text(FIRST.replace("messages[:1] + messages[-2:]", body))
    messages = session().messages
    for answer in (3, 9):  # The fifth call thinks the same as the second.
        messages[answer]["thinking"] = [{"type": "thinking", "thinking": "Look further."}]
    [contender] = contenders([str(file)])

    row = play_on(contender, session(messages=messages), tmp_path)

    assert row.stale == stale
