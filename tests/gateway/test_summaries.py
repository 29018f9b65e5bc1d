"""Agents' own compaction calls: passed whole, and forgotten afterwards."""

import json
from dataclasses import replace
from typing import Any

import pytest

from agora.adapters.rules import CATALOGUE
from agora.core.prices import sheet_for
from agora.gateway.config import RECALL_AGENTS
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.job import Edited
from agora.gateway.editing.recall import passes_recall
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.editing.summaries import OWN_SUMMARY, asks_for_summary
from agora.gateway.routing.routes import CHAT, MESSAGES, RESPONSES, Route, by_path
from agora.scorers.features import FeaturesScorer
from harness.gateway.histories import chat, messages, responses
from tests.gateway.test_edit import job

CLAUDE = "No tools.\n\nYour task is to create a detailed summary of the conversation so far."
CODEX = "You are performing a CONTEXT CHECKPOINT COMPACTION. Hand over."
GEMINI = "First, reason in your scratchpad. Then, generate the updated <state_snapshot>."
REQUESTS = (
    CLAUDE,
    "Your task is to create a detailed summary of the RECENT portion of the conversation.",
    CODEX,
    "First, reason in your scratchpad. Then, generate the <state_snapshot>.",
    f"Keep what matters.\n\n{GEMINI}",
    "Critically evaluate the <state_snapshot> you just wrote.",
    "Create a new anchored summary from the conversation history.",
    "Provide a detailed prompt for continuing our conversation above.",
    "The messages above are a conversation to summarize.",
    "You are maintaining a context-aware state summary for an agent.",
)
STEPS = 40


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def make_editor(**changes: Any) -> Editor:
    return Editor(EditorSettings(scorer=FeaturesScorer(), schedule="every_call", **changes))


def edit(editor: Editor, body: Any, route: Route, **more: Any) -> Edited:
    return editor(job(json.dumps(body).encode(), route, **more))


@pytest.mark.parametrize("request_text", REQUESTS)
def test_a_request_to_sum_up_is_recognised_at_the_end_and_nowhere_else(request_text: str) -> None:
    asked = said(request_text)
    quoted = said(f"Why does the prompt say '{request_text.splitlines()[-1]}'?")

    assert asks_for_summary([asked])
    assert asks_for_summary([{"role": "user", "content": [{"type": "text", "text": request_text}]}])
    assert asks_for_summary([asked, {"role": "system", "content": "Plan mode is on."}])
    assert not asks_for_summary([asked, {"role": "assistant", "content": "Done."}])
    assert not asks_for_summary([asked, said("Go on.")])
    assert not asks_for_summary([quoted])
    assert not asks_for_summary([{"role": "tool", "content": request_text}])
    assert not asks_for_summary([{"type": "function_call_output", "output": request_text}])
    block = {"type": "tool_result", "tool_use_id": "a", "content": request_text}
    assert not asks_for_summary([{"role": "user", "content": [block]}])


def test_what_is_not_a_message_asks_for_nothing() -> None:
    assert not asks_for_summary([])
    assert not asks_for_summary(["hi"])
    assert not asks_for_summary([{"role": "user", "content": 7}])
    assert not asks_for_summary([{"role": "system", "content": CODEX}])


@pytest.mark.parametrize(
    ("make", "route", "text"),
    [(chat, CHAT, GEMINI), (responses, RESPONSES, CODEX), (messages, MESSAGES, CLAUDE)],
)
def test_an_agents_own_compaction_call_goes_on_whole(make: Any, route: Route, text: str) -> None:
    editor = make_editor()
    body = make(STEPS)
    assert edit(editor, body, route).changed
    body[route.field].append(said(text))

    passed = edit(editor, body, route)

    assert passed.reason == OWN_SUMMARY
    assert passed.body == json.dumps(body).encode()
    assert not passed.changed


def test_codexs_trigger_item_passes_and_its_compact_path_is_not_read() -> None:
    body = responses(STEPS)
    body["input"].append({"type": "compaction_trigger"})

    assert edit(make_editor(), body, RESPONSES).reason == OWN_SUMMARY
    asked = by_path("POST", "/v1/responses/compact")
    assert asked.route is not None
    assert not asked.route.format


def test_a_compaction_call_that_cannot_fit_is_compressed_rather_than_refused() -> None:
    body = messages(STEPS)
    body["messages"].append(said(CLAUDE))
    asked = job(json.dumps(body).encode(), MESSAGES)
    small = replace(sheet_for(body["model"]), window=len(asked.body) // 5)

    assert make_editor()(replace(asked, sheet_of=lambda _: small)).changed


def test_the_memory_of_a_conversation_neither_answers_nor_keeps_a_compaction_call() -> None:
    editor = Editor(EditorSettings(scorer=FeaturesScorer()))
    before = messages(STEPS)
    edit(editor, before, MESSAGES)
    # One more step and then the request: its beginning is known, byte by byte.
    grown = messages(STEPS + 1)
    grown["messages"].append(said(CLAUDE))
    asked = job(json.dumps(grown).encode(), MESSAGES)

    assert editor.look(asked).edited is None
    assert editor.continue_edit(asked, "deadline") is None
    assert editor(asked).reason == OWN_SUMMARY
    assert editor.look(asked).edited is None


def test_after_a_compaction_the_new_conversation_is_edited_as_if_it_were_the_first() -> None:
    used = Editor(EditorSettings(scorer=FeaturesScorer()))
    old = messages(STEPS)
    edit(used, old, MESSAGES)
    old["messages"].append(said(CLAUDE))
    edit(used, old, MESSAGES)

    for steps in range(2, STEPS, 6):
        new = messages(steps)
        new["messages"][0] = said("This session goes on from a summary: find the bug.")
        fresh = Editor(EditorSettings(scorer=FeaturesScorer()))
        assert edit(used, new, MESSAGES).body == edit(fresh, new, MESSAGES).body


def test_an_illegal_request_is_named_by_the_rule_it_breaks() -> None:
    body = messages(STEPS)
    del body["messages"][2]

    left = edit(make_editor(), body, MESSAGES)

    assert left.reason.startswith("illegal_input:")
    assert left.reason.partition(":")[2] in CATALOGUE


def test_system_text_inside_anthropic_messages_no_longer_stops_compression() -> None:
    body = messages(STEPS)
    body["messages"].insert(3, {"role": "system", "content": "Plan mode is on."})

    edited = edit(make_editor(), body, MESSAGES)

    assert edited.changed
    assert {"role": "system", "content": "Plan mode is on."} in json.loads(edited.body)["messages"]


def test_recall_is_offered_only_to_agents_that_are_known_to_pass_it() -> None:
    body = chat(STEPS)
    body["tools"] = [{"type": "function", "function": {"name": "read"}}]
    offers = {
        agent: b"agora_recall" in edit(make_editor(recall=True), body, CHAT, agent=agent).body
        for agent in ("claude-cli/2.1", "QwenCode/0.15", "opencode/1.18", "")
    }

    assert offers == {
        "claude-cli/2.1": True,
        "QwenCode/0.15": True,
        "opencode/1.18": False,
        "": False,
    }
    everyone = make_editor(recall=True, recall_agents=("*",))
    assert b"agora_recall" in edit(everyone, body, CHAT, agent="opencode/1.18").body
    assert not passes_recall("python-httpx/0.28", RECALL_AGENTS)
