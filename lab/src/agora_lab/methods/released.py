"""Today's alternatives from their released packages, set to the budget by documented options.

With their defaults they change nothing here: LangChain's edit begins at 100,000 tokens, LiteLLM's
function at 200,000.
"""

from typing import Any, ClassVar

from agora_lab.chats import read, text_of
from agora_lab.methods.base import Messages, MethodSettings, Shortened
from agora_lab.methods.isolated import Isolated, Peer
from agora_lab.methods.observation_mask import masked_to
from agora_lab.methods.tool_form import with_calls, without_calls


class _Released:
    """A function of a released package, in an environment of its own."""

    peer: ClassVar[Peer]

    def __init__(self, settings: MethodSettings) -> None:
        """Name the model whose tokenizer the package counts with."""
        self._keep_ratio = settings.keep_ratio
        self._process = Isolated(self.peer, {"model": settings.model or "gpt-4o"})

    def close(self) -> None:
        """End the peer's process."""
        self._process.close()


class Headroom(_Released):
    """Headroom's `compress()`: tool results shortened according to their content.

    Its model for plain text (`kompress-v2-base`) is a download. Without it only its rules for JSON,
    code and logs run, and the detail says so.
    """

    peer = Peer("headroom", ("headroom-ai==0.42.0",))

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with compressed contents."""
        if not messages:
            return Shortened(messages=messages, detail="there are no messages")
        chat = read(messages)
        calls = with_calls(chat)
        options = {"target_ratio": self._keep_ratio, "min_tokens_to_compress": 1}
        answer = self._process.ask({"messages": calls, "options": options})
        shortened = without_calls(chat, answer["contents"], calls)
        detail = ""
        if shortened == list(messages):
            lacks = "" if answer["has_text_model"] else " (its model for plain text is absent)"
            detail = f"changed nothing{lacks}: {', '.join(answer['did']) or 'nothing applied'}"
        return Shortened(messages=shortened, detail=detail)


class LangChainClear(_Released):
    """LangChain's `ClearToolUsesEdit`: old tool results replaced by a short text."""

    peer = Peer("langchain_clear", ("langchain==1.4.7",))

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with old observations cleared, as many as the budget asks."""
        chat = read(messages)
        calls = with_calls(chat)
        # The middleware handles instructions separately: they are neither counted nor edited.
        first = next((at for at, m in enumerate(calls) if m["role"] != "system"), len(calls))
        masked = masked_to(chat, chat.room(self._keep_ratio), "[cleared]")
        results = [at for step in chat.steps for at in chat.observations(step)]
        kept = sum(at > max(masked, default=-1) for at in results)
        options = {"trigger": 0, "keep": max(kept, 1)}
        answer = self._process.ask({"messages": calls[first:], "options": options})
        contents = [m["content"] for m in calls[:first]] + answer["contents"]
        if chat.calls:
            # Nothing but the results of tools may change: other contents come back rewritten.
            contents = [
                new if old["role"] == "tool" else old.get("content")
                for new, old in zip(contents, calls, strict=True)
            ]
            calls = [{**call, "content": call.get("content")} for call in calls]
        shortened = without_calls(chat, contents, calls)
        detail = "cleared nothing" if shortened == list(messages) else ""
        return Shortened(messages=shortened, detail=detail)


class LiteLLMCompress(_Released):
    """LiteLLM's `compress()`: messages ranked against the last user message, the rest stubbed.

    Its tool for restoring messages is left out: an agent that acts by text has no tools.
    """

    peer = Peer("litellm_compress", ("litellm==1.106.2",))

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with the less relevant ones stubbed."""
        if not messages:
            return Shortened(messages=messages, detail="there are no messages")
        chat = read(messages)
        # The package counts a call's missing text as a text, and fails.
        plain: list[dict[str, Any]] = [{**m, "content": m.get("content") or ""} for m in messages]
        if not chat.calls:
            plain = [{"role": m.get("role", "user"), "content": text_of(m)} for m in messages]
        options = {"keep": chat.room(self._keep_ratio) / chat.tokens}
        answer = self._process.ask({"messages": plain, "options": options})
        if answer["messages"] == plain:
            detail = f"changed nothing: {answer['skipped'] or 'all fits'}"
            return Shortened(messages=messages, detail=detail)
        return Shortened(messages=answer["messages"])
