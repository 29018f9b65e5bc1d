"""Google ADK: a plugin that compresses the contents of each model request."""

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any

from agora.compressor import Compressor
from agora.errors import MissingExtraError
from agora.formats.anthropic import REMOVED
from agora.integrations.compress_chat import FailOpen, Kept, compress_chat, is_bound
from agora.integrations.wire import Message, call, image_part, text_part, thought, tool

try:
    from google.adk.plugins.base_plugin import BasePlugin
    from google.genai.types import Content, Part
except ImportError as error:
    raise MissingExtraError(__name__, "google-adk") from error

NOTE = "note"
"""Where a marker stands in a tool's response, which is a JSON object."""


class AgoraPlugin(BasePlugin):
    """A plugin for `Runner(…, plugins=[AgoraPlugin()])`; the session's events stay whole."""

    def __init__(self, compressor: Compressor | None = None) -> None:
        super().__init__(name="agora")
        self._compressor = compressor or Compressor()
        self._open = FailOpen(logging.getLogger(__name__))

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:  # noqa: ARG002
        """Put the compressed contents into the request; scoring runs in a thread."""
        own = llm_request.contents
        bound = is_bound(self._compressor, llm_request.model)
        llm_request.contents = await asyncio.to_thread(
            self._open,
            lambda: self._edited(llm_request),
            own,
            (lambda: _without_thinking(own)) if bound else None,
        )

    def _edited(self, request: Any) -> list[Content]:
        if getattr(request, "previous_interaction_id", None):
            return list(request.contents)  # The provider keeps part of the messages itself.
        given = [
            getattr(t, "function_declarations", None) or () for t in request.config.tools or ()
        ]
        system = request.config.system_instruction
        return shorten(
            self._compressor,
            request.contents,
            model=request.model,
            system=system if isinstance(system, str) else None,
            tools=[tool(d.name, d.description, _schema(d)) for some in given for d in some],
        )


def shorten(compressor: Compressor, contents: Sequence[Content], **options: Any) -> list[Content]:
    """Return the contents to send. It lets errors out. `options` is what `compress_chat` takes."""
    waiting: dict[str, list[str]] = {}
    # Gemini signs its calls, and those stay; Claude, which ADK also speaks to, signs its thoughts.
    signs = "claude" in str(options.get("model")).lower()
    chat: list[Message] = []
    runs: list[tuple[int, list[Part]]] = []
    for at, content in enumerate(contents):
        parts = list(content.parts or ())
        heard = [part for part in parts if part.function_response]
        rest = [part for part in parts if not part.function_response]
        for run in [*([part] for part in heard), *([rest] if rest else [])]:
            chat.append(_chat(content, run, waiting, signs=signs))
            runs.append((at, run))
    compressed = compress_chat(compressor, chat, **options)
    if compressed is None:
        return list(contents)
    stays = compressed.regroup(runs, _edit, _bare)
    return [Content(role=contents[at].role, parts=parts) for at, parts in stays.items()]


def _chat(
    content: Content, parts: list[Part], waiting: dict[str, list[str]], *, signs: bool
) -> Message:
    heard = parts[0].function_response
    if heard:
        # Gemini's calls may have no ids: then they are answered in order, by name.
        known = waiting.get(heard.name, [])
        call_id = heard.id or (known.pop(0) if known else "")
        text = json.dumps(heard.response, ensure_ascii=False)
        return {"role": "tool", "tool_call_id": call_id, "content": text}
    spoken = [p for p in parts if not p.function_call and not (signs and p.thought)]
    said = [text_part(p.text) if p.text else image_part() for p in spoken]
    if content.role != "model":
        texts = [part["text"] for part in said if "text" in part]
        return {"role": "user", "content": texts[0] if len(texts) == len(said) == 1 else said}
    made = []
    for part in parts:
        if part.function_call:
            name, arguments = part.function_call.name, json.dumps(part.function_call.args)
            call_id = part.function_call.id or f"{name} {sum(map(len, waiting.values()))}"
            waiting.setdefault(name, []).append(call_id)
            made.append(call(call_id, name, arguments))
    chat: Message = {"role": "assistant", "content": said, "tool_calls": made}
    if signs:
        signed = [part for part in parts if part.thought and part.thought_signature]
        chat["thoughts"] = [
            thought("anthropic", part.text or "", part.thought_signature.decode("latin-1"))
            for part in signed
        ]
    return chat


def _bare(parts: Sequence[Part]) -> list[Part]:
    """Return parts without Claude's thinking, of which the signature may be a part of its own."""
    return [part for part in parts if not part.thought]


def _without_thinking(contents: Sequence[Content]) -> list[Content]:
    """Return contents without thinking, where it is not known which of it still holds."""
    return [
        Content(role=content.role, parts=_bare(content.parts) or [Part(text=REMOVED)])
        if any(part.thought for part in content.parts or ())
        else content
        for content in contents
    ]


def _edit(parts: list[Part], kept: Kept) -> list[Part]:
    text = "\n\n".join(kept.texts)
    if kept.how == "after" or not parts:
        return [Part(text=text)]
    heard = parts[0].function_response
    if heard:
        response = {**heard.response, NOTE: text} if kept.how == "append" else {"result": text}
        answer = heard.model_copy(update={"response": response})
        return [parts[0].model_copy(update={"function_response": answer})]
    if not kept.apart and parts[-1].text:
        return [*parts[:-1], parts[-1].model_copy(update={"text": f"{parts[-1].text}\n\n{text}"})]
    return [*parts, Part(text=text)]


def _schema(declared: Any) -> Any:
    if declared.parameters_json_schema or not declared.parameters:
        return declared.parameters_json_schema
    return declared.parameters.model_dump(exclude_none=True, mode="json")
