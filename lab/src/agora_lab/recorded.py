"""Trajectories that research projects publish: tau-bench, SWE-agent, InterCode and their kin."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from agora import logs
from agora.formats.base import as_list, as_object
from agora.logs import Recording, Tally
from agora.logs.source import Record
from agora.logs.values import as_json, as_text

_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content")
_SPEAKER = "Orchestrator"
"""The leader in Magentic-One's logs. The others' reports are its observations."""
_TERMINAL = "Computer_terminal"
_NO_MODELS = frozenset({"replay", "human", "human_thought", "instant_empty_submit"})
"""SWE-agent's name for no model."""
Message = dict[str, Any]


class _UnreadableError(Exception):
    """The reason why a record is not a trajectory."""


def fits(value: Any) -> bool:
    """Return True for a recorded trajectory, or an object of such."""
    return any(key in fields for _, fields in _entries(value) for key in _READERS)


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Return one trajectory per record, or per entry of a record that holds many by name."""
    number = 0
    for record in records:
        for key, fields in _entries(record.value):
            number += 1
            where = f"{record.where}/{key}" if key else record.where
            try:
                yield _recording(fields, key, f"{name}:{number}")
            except _UnreadableError as problem:
                tally.refuse(where, str(problem))


def _entries(value: Any) -> Iterator[tuple[str, dict[str, object]]]:
    """Return the record itself, or its value by name, at most two names deep."""
    fields = as_object(value)
    if any(key in fields for key in _READERS):
        yield "", fields
        return
    found = False
    for key, inner in fields.items():
        one = as_object(inner)
        if any(known in one for known in _READERS):
            found = True
            yield key, one
            continue
        for deeper, last in one.items():
            if any(known in as_object(last) for known in _READERS):
                found = True
                yield f"{key}/{deeper}", as_object(last)
    if not found:
        yield "", fields


def _recording(fields: dict[str, object], key: str, own_id: str) -> Recording:
    for known, reader in _READERS.items():
        if known in fields:
            messages, acts_by_text = reader(fields)
            break
    else:
        raise _UnreadableError(f"is no recorded trajectory: it has none of {', '.join(_READERS)}")
    if not any(message["role"] == "assistant" for message in messages):
        raise _UnreadableError("holds no action of an agent")
    task = next((fields[k] for k in ("task_id", "question_ID", "name") if k in fields), key)
    model = as_object(as_object(as_json(fields.get("replay_config"))).get("agent")).get("model")
    named = as_object(model).get("name")
    return Recording(
        id=own_id,
        format="openai",
        messages=messages,
        model=named if isinstance(named, str) and named not in _NO_MODELS else None,
        observations="user" if acts_by_text else None,
        task=as_text(task),
    )


def _traj(fields: dict[str, object]) -> tuple[list[Message], bool]:
    """Read `traj`: chat messages in tau-bench and AgentRx, text in KnowAgent."""
    traj = fields["traj"]
    if isinstance(traj, str):
        return _played(traj), True
    return _chat(as_list(traj)), False


def _history(fields: dict[str, object]) -> tuple[list[Message], bool]:
    """Read `history`: of SWE-agent, or of several agents that talk to each other."""
    history = [as_object(message) for message in as_list(fields["history"])]
    if "question" in fields:
        return _conversed(history), True
    messages = _chat(history)
    return messages, not any("tool_calls" in message for message in messages)


def _acted(fields: dict[str, object]) -> tuple[list[Message], bool]:
    """Read InterCode's lists of actions and observations."""
    lists = as_object(fields["turn_history"])
    actions, observations = as_list(lists.get("actions")), as_list(lists.get("observations"))
    if not actions or len(actions) != len(observations):
        raise _UnreadableError(f"has {len(actions)} actions and {len(observations)} observations")
    messages: list[Message] = [{"role": "user", "content": as_text(fields.get("query"))}]
    for action, observation in zip(actions, observations, strict=True):
        messages.append({"role": "assistant", "content": as_text(action)})
        messages.append({"role": "user", "content": as_text(observation)})
    return messages, True


def _trace(fields: dict[str, object]) -> tuple[list[Message], bool]:
    """Read ADaPT's text, in which each part of a plan begins without a mark."""
    if not as_text(fields["trace"]).strip():
        raise _UnreadableError("has an empty trace: none of its plans was carried out")
    return _played(f"{as_text(fields.get('problem'))}\n>{as_text(fields['trace'])}"), True


def _actions_only(fields: dict[str, object]) -> tuple[list[Message], bool]:
    found = len(as_list(fields["action_history"]))
    raise _UnreadableError(f"has {found} actions and no observations: they were not recorded")


def _displayed(fields: dict[str, object]) -> tuple[list[Message], bool]:  # noqa: ARG001
    raise _UnreadableError("is shown as text, in which the calls are missing: None stands for them")


_READERS: dict[str, Callable[[dict[str, object]], tuple[list[Message], bool]]] = {
    "traj": _traj,
    "history": _history,
    "turn_history": _acted,
    "trace": _trace,
    "action_history": _actions_only,
    "messages_display": _displayed,
}


def _chat(found: list[Any]) -> list[Message]:
    """Return chat messages with the fields that the API knows, without unanswered last calls."""
    messages: list[Message] = []
    for fields in map(as_object, found):
        message = {key: fields[key] for key in _FIELDS if key in fields}
        if message.get("role") is None:
            raise _UnreadableError("holds a message without a role")
        if not message.get("tool_calls"):
            message.pop("tool_calls", None)
        ids = as_list(fields.get("tool_call_ids"))
        if message["role"] == "tool" and ids and "tool_call_id" not in message:
            for at, call_id in enumerate(ids):
                content = message.get("content") if at == 0 else ""
                messages.append({**message, "content": content, "tool_call_id": call_id})
            continue
        messages.append(message)
    while messages and messages[-1].get("tool_calls"):
        messages.pop()
    return messages


def _conversed(history: list[dict[str, object]]) -> list[Message]:
    """Return a log of several agents as one agent's: speech acts, terminal output observes."""
    messages: list[Message] = []
    led = any(as_text(one.get("role")).startswith(_SPEAKER) for one in history)
    for fields in history:
        speaker = as_text(fields.get("name") or fields.get("role"))
        acts = speaker.startswith(_SPEAKER) if led else speaker != _TERMINAL
        role = "assistant" if acts and messages else "user"
        message: Message = {"role": role, "content": as_text(fields.get("content"))}
        if speaker.isidentifier():
            message["name"] = speaker
        messages.append(message)
    return messages


def _played(text: str) -> list[Message]:
    """Return a played game as messages: lines after `>` act, the text below them observes.

    A thought without an answer comes before the next action.
    """
    task, *moves = ("\n" + text).split("\n>")
    messages: list[Message] = [{"role": "user", "content": task.strip()}]
    said: list[str] = []
    for move in moves:
        action, _, observation = move.strip().partition("\n")
        if action:
            said.append(action.strip())
        if observation.strip():
            messages.append({"role": "assistant", "content": "\n".join(said)})
            messages.append({"role": "user", "content": observation.strip()})
            said = []
    if said:
        messages.append({"role": "assistant", "content": "\n".join(said)})
    return messages


KINDS: dict[str, logs.Reader] = {**logs.KINDS, "recorded": sys.modules[__name__]}
"""The kinds of log that the lab reads: the product's, and published trajectories."""


def read_logs(
    paths: Iterable[Path], tally: Tally, *, kind: str | None = None
) -> Iterator[Recording]:
    """Yield the trajectories in logs and in published data, as `agora.logs.read_logs` does."""
    return logs.read_logs(paths, tally, kind=kind, kinds=KINDS)
