"""Legal histories of Anthropic Messages."""

from typing import Any, Literal

from agora.core.recall import TOOL_NAME
from agora.formats import recall_tool
from harness.histories.choices import Choices
from harness.histories.draft import Draft
from harness.histories.writers.spoken import write_spoken

Message = dict[str, Any]
Thinking = Literal["off", "on", "now and then"]

_TOOL = {"name": "search", "input_schema": {"type": "object", "properties": {}}}
_MAX_BREAKPOINTS = 4


def write(choices: Choices, max_steps: int) -> Draft:
    """Return a history as a choices writes it."""
    return _Writer(choices).write(max_steps)


class _Writer:
    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.draft = Draft()
        self.thinking: Thinking = "off"
        self.breakpoints = 0

    def write(self, max_steps: int) -> Draft:
        choices, draft = self.choices, self.draft
        if choices.sometimes():
            draft.tools = [_TOOL, recall_tool("anthropic")] if choices.often() else [_TOOL]
        how = choices.below(4)
        if how == 2:
            draft.system = choices.words()
        elif how == 3:
            draft.system = [self._marked({"type": "text", "text": choices.words()})]
        self._think()
        steps = choices.below(max_steps + 1)
        draft.put({"role": "user", "content": self._asked()})
        if self.thinking == "off" and choices.below(8) == 7:
            write_spoken(draft, choices, steps, user=self._user, agent=self._agent)
            return draft
        draft.called()
        for number in range(steps):
            self._between()
            self._step(number)
            draft.called()
        self._end()
        return draft

    def _think(self) -> None:
        how = self.choices.below(8)
        if how == 7:
            self.thinking, self.draft.thinking = "on", True
        elif how == 6:
            self.thinking = "on"
        elif how == 5:
            self.thinking = "now and then"
        elif how == 4:
            self.draft.thinking = False

    def _user(self, text: str) -> Message:
        return {"role": "user", "content": self._string_or_block(text)}

    def _agent(self, text: str) -> Message:
        return {"role": "assistant", "content": self._string_or_block(text)}

    def _string_or_block(self, text: str) -> object:
        return [self._marked({"type": "text", "text": text})] if self.choices.sometimes() else text

    def _marked(self, block: Message) -> Message:
        """Return the block, now and then with a cache breakpoint while there are some left."""
        if self.choices.rarely() and self.breakpoints < _MAX_BREAKPOINTS:
            self.breakpoints += 1
            return {**block, "cache_control": {"type": "ephemeral"}}
        return block

    def _asked(self) -> object:
        choices = self.choices
        text = choices.words()
        how = choices.below(16)
        if how < 9:
            return text
        blocks = [self._marked({"type": "text", "text": text})]
        if how == 15:
            blocks.append(self._marked(_image()))
        elif how == 14:
            source = {"type": "text", "media_type": "text/plain", "data": "Page 1"}
            blocks.append(self._marked({"type": "document", "source": source}))
        return blocks

    def _lead(self) -> list[Message]:
        """Return the thinking that a message of the agent opens with."""
        choices = self.choices
        if self.thinking == "off" or (self.thinking == "now and then" and choices.often()):
            return []
        if choices.sometimes():
            return [{"type": "redacted_thinking", "data": "EmwKAhgB" * (1 + choices.below(8))}]
        return [{"type": "thinking", "thinking": choices.words(), "signature": "EqQBCgIYAhIM"}]

    def _speech(self) -> Message:
        lead = self._lead()
        if not lead:
            return self._agent(self.choices.words())
        return {
            "role": "assistant",
            "content": [*lead, {"type": "text", "text": self.choices.words()}],
        }

    def _between(self) -> None:
        draft, what = self.draft, self.choices.below(16)
        if what == 15:
            draft.put(self._speech(), {"role": "user", "content": self._asked()})
            draft.called()
        elif what == 14:
            draft.put({"role": "user", "content": self._asked()})
            draft.called()
        elif what == 13:
            draft.put(self._speech())
        elif what == 12:
            self._instruct()

    def _instruct(self) -> None:
        """Put system text right behind what the user said or a tool returned."""
        self.draft.put({"role": "system", "content": self._string_or_block(self.choices.words())})
        self.draft.called()

    def _step(self, number: int) -> None:
        choices, draft = self.choices, self.draft
        calls: list[Message] = []
        positions: list[int] = []
        # Messages of one role in a row are read as one.
        for part in range(2 if choices.rarely() else 1):
            content = self._lead()
            if choices.often():
                content.append({"type": "text", "text": choices.words()})
            if choices.rarely():
                content += self._served(f"{number}_{part}")
            for n in range(choices.pick((1, 1, 1, 2, 2, 3))):
                calls.append(self._call(f"toolu_{number}_{part}_{n}"))
                content.append(calls[-1])
            positions += draft.put({"role": "assistant", "content": content})
        results = [self._result(call["id"]) for call in choices.order(calls)]
        cut = 1 if choices.rarely() else len(results)
        for blocks in (results[:cut], results[cut:]):
            if blocks:
                positions += draft.put({"role": "user", "content": blocks})
        draft.closed.append(tuple(positions))
        if choices.below(8) == 7:
            said = [self._marked({"type": "text", "text": choices.words()})]
            if choices.sometimes():
                said.append(_image())
            draft.messages[-1]["content"] += said

    def _call(self, call_id: str) -> Message:
        choices = self.choices
        block: Message = {"type": "tool_use", "id": call_id}
        if choices.rarely():
            block |= {"name": TOOL_NAME, "input": self.draft.recall_arguments(choices)}
        else:
            block |= {
                "name": choices.pick(("search", "read_file", "工具")),
                "input": choices.arguments(),
            }
        return self._marked(block)

    def _served(self, name: str) -> list[Message]:
        """Return a search that the provider ran itself."""
        call_id = f"srvtoolu_{name}"
        query = {"query": self.choices.words()}
        found = {"type": "web_search_result", "url": "https://example.org/a", "title": "A"}
        return [
            {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": query},
            {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [found]},
        ]

    def _result(self, call_id: str) -> Message:
        choices = self.choices
        block: Message = {"type": "tool_result", "tool_use_id": call_id}
        seen = choices.observation()
        if choices.sometimes():
            parts: list[Message] = [{"type": "text", "text": seen or "-"}]
            if choices.sometimes():
                parts.append(_image())
            if choices.rarely():
                parts.append({"type": "tool_reference", "tool_name": "search"})
            block["content"] = parts
        elif choices.often() or seen:
            block["content"] = seen
        if choices.rarely():
            block["is_error"] = True
        return self._marked(block)

    def _end(self) -> None:
        draft, what = self.draft, self.choices.below(16)
        if what == 15 and draft.thinking is None:
            draft.put({"role": "assistant", "content": "I will now"})
        elif what == 14:
            draft.put({"role": "user", "content": self._asked()})
            draft.called()
        elif what == 13 and self.thinking == "off":
            draft.put({"role": "assistant", "content": self._served("end")})
        elif what == 12:
            self._instruct()


def _image() -> Message:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    return {"type": "image", "source": source}
