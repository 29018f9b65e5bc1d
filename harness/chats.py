"""Chats that people have with an assistant, made up: no message of the user is an observation.

People paste logs, quote tools, write XML and open lines with words that programs open theirs with.
In these chats a person's first answer always has words of their own in it, and later ones may be
pasted whole; the assistant writes code and lists, and never speaks as an agent in a loop does.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]

_SENTENCES = (
    "Please never delete anything in the archive.",
    "Why does this fail?",
    "It hangs after about ten seconds, what now?",
    "Keep the answer short.",
    "Bitte ändere nichts an der Datenbank.",
    "¿Puedes explicarlo otra vez, más despacio?",
    "N'oublie pas la date limite du 3 mars.",
    "このファイルは消さないでください。",
    "请不要修改配置文件。",
    "Не трогай рабочую ветку.",
    "لا تحذف أي شيء من فضلك.",
    "कृपया इसे फिर से जाँचें।",
    "이 설정은 그대로 두세요.",
    "ok 👍 but use metric units",
    "no",
    "My budget is 1,200 € and not a cent more.",
)
_LOGS = (
    'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\nKeyError: 7',
    "2026-01-02 10:11:12 ERROR worker 3 died: out of memory",
    "$ ls -la\ntotal 8\n-rw-r--r-- 1 me me 12 notes.txt",
    "npm ERR! code ERESOLVE\nnpm ERR! could not resolve",
    "a.py\nb.py\n</output>\nc.py",
    '{"status": "error", "code": 500}',
    "<config><retries>3</retries></config>",
    "<output> is empty and </output> is missing",
    "0",
)
_TAGS = (
    *("output", "observation", "tool_response", "tool_result", "stdout", "command_output"),
    *("result", "code", "log", "warning", "returncode", "function_results"),
)
_PREFIXES = (
    *("Observation: ", "OBSERVATION: ", "OBSERVATION:\n", "[Observation] ", "Observation 3: "),
    *("Output: ", "Output:\n", "Result: ", "Tool: ", "Action: ", "Thought: ", "exitcode: 1\n"),
    "exitcode: 1 (execution failed)\nCode output: ",
    "There is no code from the last 1 message for me to execute. ",
    *("<returncode>0</returncode>\n", "<output>", "<observation>\n", "> ", ">>> ", "$ ", "\n\n "),
)
_SHELL = "\n(Open file: n/a)\n(Current directory: /repo)\nbash-$"
_ANSWERS = (
    "Of course.",
    "Try this:\n\n```bash\nls -la\n```",
    "Here it is:\n```python\nprint(1)\n```\nAnything else?",
    "Action: restart the server.\n\nThat should do it.",
    "Thought: this is a matter of taste. I would leave it.",
    "Observation: the log ends early.",
    "1. Stop it.\n2. Start it.\n\n```\nsystemctl restart web\n```",
    "<code>ls</code> lists files.",
    "DISCUSSION of the options follows.",
    "Das geht so: zuerst sichern, dann löschen.",
    "The output goes between <output> and </output>.",
)
_NAMES = ("alice", "Bob_2", "user", "terminal")


@dataclass(frozen=True, slots=True)
class _Writer:
    """Draws what people write."""

    chance: random.Random

    def said(self) -> str:
        return " ".join(self.chance.choices(_SENTENCES, k=self.chance.randint(1, 3)))

    def pasted(self) -> str:
        """Return a program's output, with or without the frame of an agent."""
        log = self.chance.choice(_LOGS) * self.chance.choice((1, 1, 40))
        tag = self.chance.choice(_TAGS)
        return self.chance.choice(
            (
                log,
                f"```\n{log}\n```",
                f"<{tag}>\n{log}\n</{tag}>",
                f"<returncode>1</returncode>\n<output>\n{log}\n</output>",
                f"<returncode>0</returncode>\n<warning>\nlong\n</warning>\n<output>{log}</output>",
                f"exitcode: 0 (execution succeeded)\nCode output: {log}",
                f"{log}{_SHELL}",
                f"Observation: {log}",
                f"OBSERVATION:\n{log}",
            )
        )

    def mixed(self) -> str:
        """Return a message with words of the person's own somewhere in it."""
        ways: Sequence[Callable[[], str]] = (
            self.said,
            lambda: f"{self.said()}\n\n{self.pasted()}",
            lambda: f"{self.pasted()}\n\n{self.said()}",
            lambda: f"{self.pasted()}\n{self.said()}\n{self.pasted()}",
            lambda: f"{self.chance.choice(_PREFIXES)}{self.said()}",
            lambda: f"{self.chance.choice(_PREFIXES)}{self.pasted()}\n{self.said()}",
            lambda: f"{self.said()}{_SHELL}",
        )
        return self.chance.choice(ways)()


def human_chat(chance: random.Random, *, most_turns: int = 14) -> list[Message]:
    """Return a chat of a person with an assistant.

    >>> chat = human_chat(random.Random(7))
    >>> [message["role"] for message in chat[-3:]]
    ['user', 'assistant', 'user']
    """
    writer = _Writer(chance)
    messages: list[Message] = []
    if chance.random() < 0.5:
        messages.append({"role": "system", "content": f"You are helpful. {writer.pasted()}"})
    messages.append(_by_person(writer, writer.mixed()))
    for turn in range(chance.randint(1, most_turns)):
        messages.append({"role": "assistant", "content": chance.choice(_ANSWERS)})
        own = not turn or chance.random() < 0.7
        messages.append(_by_person(writer, writer.mixed() if own else writer.pasted()))
        if chance.random() < 0.1:
            messages.append(_by_person(writer, writer.mixed()))
    return messages


def _by_person(writer: _Writer, text: str) -> Message:
    message: Message = {"role": "user", "content": text}
    if writer.chance.random() < 0.1:
        message["name"] = writer.chance.choice(_NAMES)
    return message


def lost(before: Sequence[Message], after: Sequence[Message]) -> list[str]:
    """Return the user's texts that are missing, cut or out of order in the sent messages.

    A marker may follow a text in its message; nothing else may change.
    """
    missing: list[str] = []
    sent = [str(message["content"]) for message in after if message["role"] == "user"]
    at = 0
    for message in before:
        if message["role"] != "user":
            continue
        text = str(message["content"])
        if at < len(sent) and sent[at].startswith(text):
            at += 1
        else:
            missing.append(text)
    return missing
