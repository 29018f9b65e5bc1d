"""References looked up: lines that a prompt shows above, where a result leaves them out.

A language model looks further up without being taught; for readers, which are programs, that is
done here, by the rule that the reference itself states.
"""

import re

from agora.core.reading.repeats import Shown, expanding
from agora_lab.backbones.base import Messages
from agora_lab.chats import text_of, with_text

REFERENCE = re.compile(
    r"^\[\d{1,6} lines left out, unchanged[^\]\n]{0,40}, shown above(?: #([0-9a-f]{4,12}))?\]$",
    re.MULTILINE,
)


def looked_up(messages: Messages) -> Messages:
    """Return messages with the lines that references stand for; as they are where there are none.

    Results are the user's messages but for the first, as an agent that acts by text has them.
    """
    results = [at for at, message in enumerate(messages) if message["role"] == "user"][1:]
    named = [REFERENCE.search(text_of(messages[at])) for at in results]
    code = next((found[1] or "" for found in named if found), None)
    if code is None:
        return messages
    expand = expanding(Shown(), code)
    read = list(messages)
    for at in results:
        read[at] = with_text(read[at], expand(text_of(read[at])))
    return read
