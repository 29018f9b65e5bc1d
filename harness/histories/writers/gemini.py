"""Legal histories of Gemini contents."""

from typing import Any

from agora.core.recall import TOOL_NAME
from agora.formats import recall_tool
from harness.histories.choices import Choices
from harness.histories.draft import Draft
from harness.histories.writers.spoken import write_spoken

Message = dict[str, Any]

_SCHEMA = {"type": "OBJECT", "properties": {"query": {"type": "STRING"}}}
_TOOL = {"functionDeclarations": [{"name": "search", "parameters": _SCHEMA}]}


def write(choices: Choices, max_steps: int) -> Draft:
    """Return a history as a choices writes it."""
    return _Writer(choices).write(max_steps)


class _Writer:
    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.draft = Draft()
        self.signs = False
        """Whether each step's first call carries a thought signature, as Gemini 3 asks."""
        self.snake = False
        """Whether fields are spelled as the Python SDK dumps them."""

    def write(self, max_steps: int) -> Draft:
        choices, draft = self.choices, self.draft
        if choices.sometimes():
            draft.tools = [_TOOL, recall_tool("gemini")] if choices.often() else [_TOOL]
        if choices.often():
            instruction = [{"text": choices.words()}]
            draft.system = choices.pick(({"parts": instruction}, choices.words(), instruction))
        self.signs = choices.often()
        self.snake = choices.rarely()
        steps = choices.below(max_steps + 1)
        draft.put(self._asks())
        if choices.below(8) == 7:
            write_spoken(draft, choices, steps, user=_user, agent=_model)
            if draft.messages[-1].get("role") == "model":
                # Gemini answers a user's turn and continues none of its own.
                draft.messages.pop()
            return draft
        draft.called()
        for number in range(steps):
            self._between()
            self._step(number)
            draft.called()
        if choices.below(16) == 15:
            draft.put(self._asks())
            draft.called()
        return draft

    def _asks(self) -> Message:
        """Return the user's text."""
        choices = self.choices
        parts: list[Message] = [{"text": choices.words()}]
        how = choices.below(16)
        if how == 15:
            parts.append(self._media("image/png"))
        elif how == 14:
            parts.insert(0, self._media("application/pdf"))
        elif how == 13:
            place = {self._name("fileUri"): "https://example.org/a.mp4"}
            parts.append({self._name("fileData"): place})
        elif how == 12:
            return {"parts": parts}
        return {"role": "user", "parts": parts}

    def _speaks(self) -> Message:
        """Return the model's text without a call."""
        said: Message = {"text": self.choices.words()}
        if self.signs and self.choices.often():
            said[self._name("thoughtSignature")] = "CgYKBHNpZ24="
        return {"role": "model", "parts": [*self._thinks(), said]}

    def _thinks(self) -> list[Message]:
        return [{"text": self.choices.words(), "thought": True}] if self.choices.sometimes() else []

    def _between(self) -> None:
        draft, what = self.draft, self.choices.below(16)
        if what == 15:
            draft.put(self._speaks(), self._asks())
            draft.called()
        elif what == 14:
            draft.put(self._asks())
            draft.called()

    def _step(self, number: int) -> None:
        choices, draft = self.choices, self.draft
        parts = self._thinks()
        if choices.sometimes():
            parts.append({"text": choices.words()})
        if choices.rarely():
            parts += self._ran()
        if choices.below(32) == 31:
            parts.append({"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {}}})
        responses: list[Message] = []
        for n in range(choices.pick((1, 1, 1, 2, 2, 3))):
            call, response = self._call(f"call_{number}_{n}" if choices.often() else "")
            part: Message = {self._name("functionCall"): call}
            if self.signs and not n:
                part[self._name("thoughtSignature")] = "CiQBtest" * (1 + choices.below(8))
            parts.append(part)
            responses.append({self._name("functionResponse"): response})
        positions = draft.put({"role": "model", "parts": parts})
        role = choices.pick(("user", "user", "user", "function"))
        if choices.rarely():
            # An older model takes no media inside a response: it stands next to it.
            responses.append(self._media("image/png"))
        if choices.below(8) == 7:
            responses.append({"text": choices.words()})
        positions += draft.put({"role": role, "parts": responses})
        draft.closed.append(tuple(positions))

    def _call(self, call_id: str) -> tuple[Message, Message]:
        choices = self.choices
        if choices.rarely():
            name, arguments = TOOL_NAME, self.draft.recall_arguments(choices)
        else:
            name, arguments = (
                choices.pick(("search", "read_file", "run_shell")),
                choices.arguments(),
            )
        call: Message = {"name": name, "args": arguments}
        response: Message = {"name": name, "response": self._response()}
        if not arguments and choices.often():
            del call["args"]
        if call_id:
            call["id"] = response["id"] = call_id
        if choices.rarely():
            response["parts"] = [self._media("image/png")]
        return call, response

    def _response(self) -> Message:
        choices = self.choices
        seen = choices.observation()
        how = choices.below(16)
        if how < 8:
            return {"output": seen}
        if how < 12:
            return {"result": seen}
        if how == 12:
            return {"error": seen}
        if how == 13:
            return {"result": {"pages": [seen], "more": False}, "status": "ok"}
        if how == 14:
            return {"output": [seen], "note": 1} if choices.often() else {"output": {"text": seen}}
        return {"rows": [[1, seen]], "output": "two rows"}

    def _ran(self) -> list[Message]:
        """Return code that the provider ran itself."""
        return [
            {self._name("executableCode"): {"language": "PYTHON", "code": "print(2)"}},
            {self._name("codeExecutionResult"): {"outcome": "OUTCOME_OK", "output": "2"}},
        ]

    def _media(self, kind: str) -> Message:
        return {self._name("inlineData"): {self._name("mimeType"): kind, "data": "AAAA"}}

    def _name(self, camel: str) -> str:
        if not self.snake:
            return camel
        return "".join(f"_{one.lower()}" if one.isupper() else one for one in camel)


def _user(text: str) -> Message:
    return {"role": "user", "parts": [{"text": text}]}


def _model(text: str) -> Message:
    return {"role": "model", "parts": [{"text": text}]}
