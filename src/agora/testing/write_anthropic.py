"""Legal histories of Anthropic Messages."""

from typing import Any, Literal

from agora.adapters.recall import recall_tool
from agora.core.recall import TOOL_NAME
from agora.testing.draft import Draft
from agora.testing.pen import Pen
from agora.testing.write_spoken import write_spoken

Message = dict[str, Any]
Thinking = Literal["off", "on", "now and then"]

_TOOL = {"name": "search", "input_schema": {"type": "object", "properties": {}}}
_MAX_BREAKPOINTS = 4


def write(pen: Pen, max_steps: int) -> Draft:
    """Return a history as a pen writes it."""
    return _Writer(pen).write(max_steps)


class _Writer:
    def __init__(self, pen: Pen) -> None:
        self.pen = pen
        self.draft = Draft()
        self.thinking: Thinking = "off"
        self.breakpoints = 0

    def write(self, max_steps: int) -> Draft:
        pen, draft = self.pen, self.draft
        if pen.sometimes():
            draft.tools = [_TOOL, recall_tool("anthropic")] if pen.often() else [_TOOL]
        how = pen.below(4)
        if how == 2:
            draft.system = pen.words()
        elif how == 3:
            draft.system = [self._marked({"type": "text", "text": pen.words()})]
        self._think()
        steps = pen.below(max_steps + 1)
        draft.put({"role": "user", "content": self._asked()})
        if self.thinking == "off" and pen.below(8) == 7:
            write_spoken(draft, pen, steps, user=self._user, agent=self._agent)
            return draft
        draft.called()
        for number in range(steps):
            self._between()
            self._step(number)
            draft.called()
        self._end()
        return draft

    def _think(self) -> None:
        how = self.pen.below(8)
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
        return [self._marked({"type": "text", "text": text})] if self.pen.sometimes() else text

    def _marked(self, block: Message) -> Message:
        """Return the block, now and then with a cache breakpoint while there are some left."""
        if self.pen.rarely() and self.breakpoints < _MAX_BREAKPOINTS:
            self.breakpoints += 1
            return {**block, "cache_control": {"type": "ephemeral"}}
        return block

    def _asked(self) -> object:
        pen = self.pen
        text = pen.words()
        how = pen.below(16)
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
        pen = self.pen
        if self.thinking == "off" or (self.thinking == "now and then" and pen.often()):
            return []
        if pen.sometimes():
            return [{"type": "redacted_thinking", "data": "EmwKAhgB" * (1 + pen.below(8))}]
        return [{"type": "thinking", "thinking": pen.words(), "signature": "EqQBCgIYAhIM"}]

    def _speech(self) -> Message:
        lead = self._lead()
        if not lead:
            return self._agent(self.pen.words())
        return {"role": "assistant", "content": [*lead, {"type": "text", "text": self.pen.words()}]}

    def _between(self) -> None:
        draft, what = self.draft, self.pen.below(16)
        if what == 15:
            draft.put(self._speech(), {"role": "user", "content": self._asked()})
            draft.called()
        elif what == 14:
            draft.put({"role": "user", "content": self._asked()})
            draft.called()
        elif what == 13:
            draft.put(self._speech())

    def _step(self, number: int) -> None:
        pen, draft = self.pen, self.draft
        calls: list[Message] = []
        positions: list[int] = []
        # Messages of one role in a row are read as one.
        for part in range(2 if pen.rarely() else 1):
            content = self._lead()
            if pen.often():
                content.append({"type": "text", "text": pen.words()})
            if pen.rarely():
                content += self._served(f"{number}_{part}")
            for n in range(pen.pick((1, 1, 1, 2, 2, 3))):
                calls.append(self._call(f"toolu_{number}_{part}_{n}"))
                content.append(calls[-1])
            positions += draft.put({"role": "assistant", "content": content})
        results = [self._result(call["id"]) for call in pen.order(calls)]
        cut = 1 if pen.rarely() else len(results)
        for blocks in (results[:cut], results[cut:]):
            if blocks:
                positions += draft.put({"role": "user", "content": blocks})
        draft.closed.append(tuple(positions))
        if pen.below(8) == 7:
            said = [self._marked({"type": "text", "text": pen.words()})]
            if pen.sometimes():
                said.append(_image())
            draft.messages[-1]["content"] += said

    def _call(self, call_id: str) -> Message:
        pen = self.pen
        block: Message = {"type": "tool_use", "id": call_id}
        if pen.rarely():
            block |= {"name": TOOL_NAME, "input": self.draft.recall_arguments(pen)}
        else:
            block |= {"name": pen.pick(("search", "read_file", "工具")), "input": pen.arguments()}
        return self._marked(block)

    def _served(self, name: str) -> list[Message]:
        """Return a search that the provider ran itself."""
        call_id = f"srvtoolu_{name}"
        query = {"query": self.pen.words()}
        found = {"type": "web_search_result", "url": "https://example.org/a", "title": "A"}
        return [
            {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": query},
            {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [found]},
        ]

    def _result(self, call_id: str) -> Message:
        pen = self.pen
        block: Message = {"type": "tool_result", "tool_use_id": call_id}
        seen = pen.observation()
        if pen.sometimes():
            parts: list[Message] = [{"type": "text", "text": seen or "-"}]
            if pen.sometimes():
                parts.append(_image())
            if pen.rarely():
                parts.append({"type": "tool_reference", "tool_name": "search"})
            block["content"] = parts
        elif pen.often() or seen:
            block["content"] = seen
        if pen.rarely():
            block["is_error"] = True
        return self._marked(block)

    def _end(self) -> None:
        draft, what = self.draft, self.pen.below(16)
        if what == 15 and draft.thinking is None:
            draft.put({"role": "assistant", "content": "I will now"})
        elif what == 14:
            draft.put({"role": "user", "content": self._asked()})
            draft.called()
        elif what == 13 and self.thinking == "off":
            draft.put({"role": "assistant", "content": self._served("end")})


def _image() -> Message:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    return {"type": "image", "source": source}
