"""Which step a call of the recall tool asks for."""

import json


def step_in(arguments: object) -> object:
    """Return the step that a call's arguments name, None if they name none.

    >>> step_in('{"step": 3}'), step_in({"step": 4}), step_in("{")
    (3, 4, None)
    """
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return arguments.get("step") if isinstance(arguments, dict) else None
