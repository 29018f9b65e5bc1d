"""Strands Agents' SlidingWindowConversationManager, from the released package."""

import importlib
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

TITLE = "Strands sliding window"
SOURCE = "strandsagents.com, conversation management: window 40; per_turn for tool loops"
PACKAGES = ("strands-agents==1.62.0",)
KEEPS = True
SETTINGS: dict[str, dict[str, Any]] = {
    "default: 40 messages, after each answer to the user": {},
    "per_turn": {"per_turn": True},
}


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook: by default it runs when the user speaks again, with per_turn at calls."""
    module = importlib.import_module("strands.agent.conversation_manager")
    manager = module.SlidingWindowConversationManager(**settings)

    def edit(messages: list[dict[str, Any]], _about: dict[str, Any]) -> list[dict[str, Any]]:
        end = len(messages)
        if not settings.get("per_turn"):
            while end and messages[end - 1]["role"] == "user":
                end -= 1
            if end == len(messages):
                return messages
        system = [m for m in messages if m["role"] == "system"]
        turns: list[dict[str, Any]] = []
        origin: dict[int, list[dict[str, Any]]] = {}
        for message in messages[len(system) : end]:
            role = "assistant" if message["role"] == "assistant" else "user"
            if not turns or role == "assistant" or turns[-1]["role"] == "assistant":
                turns.append({"role": role, "content": []})
                origin[id(turns[-1])] = []
            turns[-1]["content"] += _blocks(message)
            origin[id(turns[-1])].append(message)
        manager.apply_management(SimpleNamespace(messages=turns))
        return system + [m for turn in turns for m in origin[id(turn)]] + messages[end:]

    return edit


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    text = [{"text": message["content"]}]
    if message["role"] == "tool":
        result = {"toolUseId": message["tool_call_id"], "content": text, "status": "success"}
        return [{"toolResult": result}]
    calls = [(call["id"], call["function"]) for call in message.get("tool_calls", ())]
    return text + [
        {"toolUse": {"toolUseId": key, "name": f["name"], "input": json.loads(f["arguments"])}}
        for key, f in calls
    ]
