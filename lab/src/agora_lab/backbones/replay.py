"""Recorded answers in place of a backbone, for tests and reruns."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agora_lab.backbones.base import Answer, Backbone, Messages, prompt_text
from agora_lab.backbones.retries import BackboneError


def messages_key(messages: Messages) -> str:
    """Return the key of a prompt: a hash of its messages only."""
    data = json.dumps([dict(message) for message in messages], sort_keys=True)
    return hashlib.sha256(data.encode("ascii")).hexdigest()


class Recorder:
    """A backbone that also records every answer with its prompt, one per line."""

    def __init__(self, backbone: Backbone, file: Path) -> None:
        self._backbone = backbone
        self._file = file

    def answer(self, messages: Messages) -> Answer:
        """Return the backbone's answer, after recording it."""
        answer = self._backbone.answer(messages)
        line: dict[str, Any] = {
            "key": messages_key(messages),
            "messages": [dict(message) for message in messages],
            "answer": asdict(answer),
        }
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return answer


class Replay:
    """A backbone that gives only recorded answers.

    It always gives the first answer recorded for a prompt: like every backbone here,
    it has no memory.
    """

    def __init__(self, file: Path) -> None:
        """Read a recording.

        Raises:
            BackboneError: the file is missing, or holds something else.
        """
        self._file = file
        self._answers: dict[str, Answer] = {}
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise BackboneError(str(file), "cannot be read as recorded answers") from error
        for number, line in enumerate(lines, start=1):
            try:
                found = json.loads(line)
                key, answer = messages_key(found["messages"]), Answer(**found["answer"])
            except (ValueError, KeyError, TypeError) as error:
                raise BackboneError(f"{file}:{number}", "is not a recorded answer") from error
            if key != found.get("key"):
                raise BackboneError(f"{file}:{number}", "has messages that do not match its key")
            self._answers.setdefault(key, answer)

    def answer(self, messages: Messages) -> Answer:
        """Return what was recorded for these messages.

        Raises:
            BackboneError: nothing was; the error shows the end of the prompt.
        """
        found = self._answers.get(messages_key(messages))
        if found is None:
            raise BackboneError(
                str(self._file),
                f"has {len(self._answers)} recorded prompts but not this one, of {len(messages)} "
                f"messages, which ends: {prompt_text(messages)[-300:]!r}; record it with Recorder",
            )
        return found
