"""Legal histories of Bedrock Converse."""

from typing import Any, Literal

from agora.core.recall import TOOL_NAME
from agora.formats import recall_tool
from harness.histories.choices import Choices
from harness.histories.draft import Draft
from harness.histories.writers.spoken import write_spoken

Message = dict[str, Any]
Reasoning = Literal["off", "on", "now and then"]

_SCHEMA = {"json": {"type": "object", "properties": {}}}
_TOOL = {"toolSpec": {"name": "search", "inputSchema": _SCHEMA}}
_POINT = {"cachePoint": {"type": "default"}}
_MAX_POINTS = 4


def write(choices: Choices, max_steps: int) -> Draft:
    """Return a history as a choices writes it."""
    return _Writer(choices).write(max_steps)


class _Writer:
    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.draft = Draft()
        self.reasoning: Reasoning = "off"
        self.points = 0

    def write(self, max_steps: int) -> Draft:
        choices, draft = self.choices, self.draft
        if choices.often():
            tools = [_TOOL, recall_tool("bedrock")] if choices.often() else [_TOOL]
            draft.tools = {"tools": self._pointed(tools)}
        if choices.often():
            draft.system = self._pointed([{"text": choices.words()}])
        self._reason()
        steps = choices.below(max_steps + 1)
        draft.put(self._asks())
        if self.reasoning == "off" and choices.below(8) == 7:
            write_spoken(draft, choices, steps, user=self._user, agent=self._agent, alternate=True)
            return draft
        draft.called()
        for number in range(steps):
            self._between()
            self._step(number)
            draft.called()
        self._end()
        return draft

    def _reason(self) -> None:
        how = self.choices.below(8)
        if how == 7:
            self.reasoning, self.draft.thinking = "on", True
        elif how == 6:
            self.reasoning = "on"
        elif how == 5:
            self.reasoning = "now and then"

    def _pointed(self, blocks: list[Message]) -> list[Message]:
        """Return the blocks, now and then with a cache point after them while there are some."""
        if self.choices.below(8) == 7 and self.points < _MAX_POINTS:
            self.points += 1
            return [*blocks, _POINT]
        return blocks

    def _user(self, text: str) -> Message:
        return {"role": "user", "content": self._pointed([{"text": text}])}

    def _agent(self, text: str) -> Message:
        return {"role": "assistant", "content": [{"text": text}]}

    def _asks(self) -> Message:
        choices = self.choices
        blocks: list[Message] = [{"text": choices.words()}]
        how = choices.below(16)
        if how == 15:
            blocks.append(_image())
        elif how == 14:
            source = {"text": "Page 1"}
            document = {"name": "page", "format": "txt", "source": source}
            # First: a cache point may not follow a document that is not a PDF.
            blocks.insert(0, {"document": document})
        elif how == 13:
            blocks.append({"guardContent": {"text": {"text": choices.words()}}})
        return {"role": "user", "content": self._pointed(blocks)}

    def _lead(self) -> list[Message]:
        """Return the reasoning that a message of the agent opens with."""
        choices = self.choices
        if self.reasoning == "off" or (self.reasoning == "now and then" and choices.often()):
            return []
        if choices.sometimes():
            return [{"reasoningContent": {"redactedContent": "EmwKAhgB" * (1 + choices.below(8))}}]
        shown = {"text": choices.words(), "signature": "EqQBCgIYAhIM"}
        return [{"reasoningContent": {"reasoningText": shown}}]

    def _between(self) -> None:
        draft, what = self.draft, self.choices.below(16)
        if what == 15:
            said = [*self._lead(), {"text": self.choices.words()}]
            if self.choices.rarely():
                said.append({"citationsContent": {"content": [{"text": "p. 1"}], "citations": []}})
            draft.put({"role": "assistant", "content": self._pointed(said)}, self._asks())
            draft.called()

    def _step(self, number: int) -> None:
        choices, draft = self.choices, self.draft
        content = self._lead()
        if choices.often():
            content.append({"text": choices.words()})
        if choices.rarely():
            content += self._served(number)
        calls = [
            self._call(f"tooluse_{number}_{n}") for n in range(choices.pick((1, 1, 1, 2, 2, 3)))
        ]
        content += [{"toolUse": call} for call in calls]
        positions = draft.put({"role": "assistant", "content": self._pointed(content)})
        results: list[Message] = [
            {"toolResult": self._result(call["toolUseId"])} for call in choices.order(calls)
        ]
        if choices.below(8) == 7:
            results.append({"text": choices.words()})
        positions += draft.put({"role": "user", "content": self._pointed(results)})
        draft.closed.append(tuple(positions))

    def _call(self, call_id: str) -> Message:
        choices = self.choices
        if choices.rarely():
            name, arguments = TOOL_NAME, self.draft.recall_arguments(choices)
        else:
            name, arguments = (
                choices.pick(("search", "read_file", "run-shell")),
                choices.arguments(),
            )
        return {"toolUseId": call_id, "name": name, "input": arguments}

    def _served(self, number: int) -> list[Message]:
        """Return a search that the provider ran itself."""
        call_id = f"srvtooluse_{number}"
        call = {"toolUseId": call_id, "name": "nova_grounding", "input": {}}
        found = {"toolUseId": call_id, "content": [{"text": "A"}], "type": "nova_grounding_result"}
        return [{"toolUse": {**call, "type": "server_tool_use"}}, {"toolResult": found}]

    def _result(self, call_id: str) -> Message:
        choices = self.choices
        seen = choices.observation()
        how = choices.below(16)
        blocks: list[Message] = [{"text": seen}] if seen else []
        if how in (12, 13):
            blocks = [{"json": {"found": seen, "more": False}}]
        elif how == 14:
            blocks.append(_image())
        elif how == 15:
            blocks.append({"text": choices.words()})
        if choices.below(32) == 31:
            blocks.append({"hologram": {}})
        result: Message = {"toolUseId": call_id, "content": blocks}
        if choices.sometimes():
            result["status"] = choices.pick(("success", "error" if blocks else "success"))
        return result

    def _end(self) -> None:
        draft, what = self.draft, self.choices.below(16)
        if what == 15 and draft.thinking is None:
            draft.put({"role": "assistant", "content": [{"text": "I will now"}]})


def _image() -> Message:
    return {"image": {"format": "png", "source": {"bytes": "AAAA"}}}
