"""A conversation put together from what an agent wrote down, as chat messages.

Agents write their sessions down in shapes of their own, and not what they sent.
What they sent is put together again here: each answer, the results of its calls
behind it in their order, and for each answer what the log says of the call.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agora.core.request import Observations
from agora.logs.calls import rising
from agora.logs.recording import Recording
from agora.logs.usage import Usage

NO_RESULT = "[no result in the log]"
Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """What a log says of one call of the model."""

    usage: Usage | None = None
    output_tokens: int | None = None
    at_seconds: float | None = None


def tool_call(call_id: str, name: str, arguments: str) -> Message:
    """Return a call as a chat message has it."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


@dataclass(slots=True)
class Talk:
    """One conversation as it is read."""

    messages: list[Message] = field(default_factory=list)
    model: str | None = None
    tools: object = None
    _made: list[Made | None] = field(default_factory=list)
    """Per message: what is known of the call that made it; None where none of these did."""

    def say(self, role: str, content: Any) -> None:
        """Take in what the system or the user says; what is empty was not sent."""
        if content:
            self._add({"role": role, "content": content})

    def answer(
        self, text: str, calls: Iterable[Message] = (), *, thoughts: str = "", made: Made | None
    ) -> None:
        """Take in an answer; `made` is None for one that an earlier recording's call made."""
        message: Message = {"role": "assistant", "content": text or None}
        if thoughts:
            message["reasoning_content"] = thoughts
        listed = list(calls)
        if listed:
            message["tool_calls"] = listed
        elif not text:
            return
        self._add(message, made)

    def result(self, call_id: str, content: str) -> None:
        """Take in what a call gave."""
        self._add({"role": "tool", "tool_call_id": call_id, "content": content})

    def recording(
        self,
        own_id: str,
        *,
        task: str = "",
        observations: Observations | None = None,
        lacks: str = "",
    ) -> Recording | None:
        """Return the recording, or None if none of the answers was made by a call of its own.

        `lacks` is what such a log never holds, in words.
        """
        messages, made = self._paired()
        calls = tuple(at for at, one in enumerate(made) if one is not None)
        known = [one for one in made if one is not None]
        if not known:
            return None
        earlier = sum(one["role"] == "assistant" for one in messages[: calls[0]])
        while messages and messages[-1].get("tool_calls"):
            # The call was made, but what it asked for was not run any more.
            messages.pop()
        usage = [one.usage for one in known if one.usage is not None]
        tokens = [one.output_tokens for one in known if one.output_tokens is not None]
        times = [one.at_seconds for one in known if one.at_seconds is not None]
        return Recording(
            id=own_id,
            format="openai",
            messages=messages,
            tools=self.tools,
            model=self.model,
            observations=observations,
            calls=calls,
            usage=tuple(usage) if len(usage) == len(calls) else (),
            output_tokens=tuple(tokens) if len(tokens) == len(calls) else (),
            at_seconds=rising(times) if len(times) == len(calls) else (),
            task=task,
            earlier_calls=earlier,
            lacks=lacks,
        )

    def _add(self, message: Message, made: Made | None = None) -> None:
        self.messages.append(message)
        self._made.append(made)

    def _paired(self) -> tuple[list[Message], list[Made | None]]:
        """Return the messages with each call's one result behind it, and no other results.

        A call without a result was broken off: it gets one that says so, as an
        agent gives it. Only at the end are calls left open.
        """
        results: dict[str, list[str]] = {}
        last = max((at for at, one in enumerate(self.messages) if one["role"] != "tool"), default=0)
        for message in self.messages:
            if message["role"] == "tool":
                results.setdefault(message["tool_call_id"], []).append(message["content"])
        out: list[Message] = []
        made: list[Made | None] = []
        for at, message in enumerate(self.messages):
            if message["role"] == "tool":
                continue
            out.append(message)
            made.append(self._made[at])
            asked = [call["id"] for call in message.get("tool_calls", ())]
            if at == last and not any(results.get(call) for call in asked):
                continue
            for call in asked:
                given = results.get(call)
                content = given.pop(0) if given else NO_RESULT
                out.append({"role": "tool", "tool_call_id": call, "content": content})
                made.append(None)
        return out, made
