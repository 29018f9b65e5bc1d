"""llama.cpp grammars that restrict a backbone to the actions an environment allows."""

import json
from collections.abc import Iterable


def one_of(actions: Iterable[str], *, verbs: Iterable[str] = ()) -> str:
    r"""Return a GBNF grammar that allows exactly one of these lines.

    A verb allows any words in brackets after it.

    >>> one_of(["look", 'say "hi"'], verbs=["search"])
    'root ::= "look" | "say \\"hi\\"" | "search[" [^\\]\\[\\n]+ "]"'
    """
    lines = [json.dumps(action, ensure_ascii=False) for action in actions]
    lines += [json.dumps(f"{verb}[", ensure_ascii=False) + r' [^\]\[\n]+ "]"' for verb in verbs]
    if not lines:
        raise ValueError("no action to choose from")
    return "root ::= " + " | ".join(lines)
