"""What a step's action is made of: the names it uses, and what tells it from other actions."""

from agora.core.identifiers import listed
from agora.core.trajectory import Step

READ_CHARACTERS = 32_768
"""How much of a very long text is searched for names, from each end."""


def names_in(text: str, *, characters: int = READ_CHARACTERS) -> tuple[str, ...]:
    """Return the names in a text; of a very long one, those near its two ends.

    >>> names_in("opened src/app.py, then src/db.py")
    ('src/app.py', 'src/db.py')
    """
    if len(text) <= 2 * characters:
        return listed(text)
    return listed(text[:characters]) + listed(text[-characters:])


def used_by(step: Step) -> dict[str, None]:
    """Return the names that an action is made of, each once, in order."""
    return dict.fromkeys(names_in("\n".join(c.arguments for c in step.calls) or step.action))


def action_text(step: Step, *, characters: int) -> str:
    """Return what a step said and gave to its calls, up to so many characters."""
    return "\n".join([step.action, *[call.arguments for call in step.calls]])[:characters]


def done_by(step: Step) -> object:
    """Return what two actions have in common when the second repeats the first word for word."""
    return step.calls or " ".join(step.action.split())
