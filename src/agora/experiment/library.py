"""An experiment in a program that calls a model by itself, with the arms of a gateway's."""

import atexit
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from agora.core.prices import sheet_for
from agora.errors import SettingError
from agora.experiment.assignment import ANONYMOUS, MOST_SHARE, Arm, Draw, Seat, owner
from agora.experiment.conversations import Conversation
from agora.experiment.rules import STOP_WHEN, parse_rule
from agora.experiment.trial import Terms, Trial

CONVERSATION_HEADER = "x-agora-conversation"


class Usage(NamedTuple):
    """What a provider billed for a call, in tokens."""

    fresh: int = 0
    read: int = 0
    """From its cache."""
    written: int = 0
    output: int = 0


class Experiment:
    """Some conversations with AGORA, as many with everything, compared, and stopped at harm.

    For `agora.wrap(client, experiment=...)`. A gateway with the same key, name and share draws a
    conversation of the same API key into the same arm, and may use the same folder. One for each
    process and folder: figures are handed in by a thread, and at the end of the program.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        key: str,
        name: str = "experiment",
        share: float = 0.05,
        stop_when: Sequence[str] = STOP_WHEN,
        idle_minutes: float = 30.0,
        tenant: str | None = None,
    ) -> None:
        """Begin an experiment, or go on with the one in the folder.

        `key` is the gateway's AGORA_TENANT_SECRET: a long random text, the same everywhere. Of all
        conversations a `share` is edited, and as many are compared with them. Whose they are says
        `tenant`, or the client's API key.

        Raises:
            SettingError: the key is empty, or the share above a half.
            RuleError: one of `stop_when` is no bound.
            StoreError: the folder cannot be used.
        """
        if not key:
            raise SettingError("key", "an empty text", "a long random text that never changes")
        if not 0 <= share <= MOST_SHARE:
            raise SettingError("share", repr(share), f"a share, from 0 to {MOST_SHARE}")
        self._secret = key.encode()
        self._tenant = tenant
        terms = Terms(
            name=name,
            folder=Path(folder),
            share=share,
            idle_seconds=idle_minutes * 60,
            rules=tuple(parse_rule(text) for text in stop_when),
        )
        self._trial = Trial(terms, Draw(name, self._secret))
        self._trial.start()
        self._closed = False
        atexit.register(self.close)

    @property
    def stopped(self) -> str:
        """Why nothing is edited any more; nothing while it runs."""
        return self._trial.stopped

    def tenant_of(self, api_key: str = "") -> str:
        """Return whose the conversations of an API key are: what a gateway calls it."""
        if self._tenant is not None:
            return self._tenant
        return owner(b"key", api_key.encode(), self._secret) if api_key else ANONYMOUS

    def seat(
        self, conversation: str | bytes, *, first: bool, tenant: str | None = None
    ) -> Seat | None:
        """Return where a call sits; None where it is in no arm, or all is over.

        `conversation` is what all its calls have in common and others do not. Edit the prompt if
        the seat's arm is `agora`, and `count` the call in either arm when it is over.
        """
        said = conversation.encode() if isinstance(conversation, str) else conversation
        if self._trial.stopped or not said:
            return None
        whose = self.tenant_of() if tenant is None else tenant
        conversation_id = self._trial.draw.id_of(whose, said)
        arm = self._trial.arm(conversation_id)
        return None if arm is Arm.WAITING else Seat(conversation_id, arm, first)

    def count(
        self,
        seat: Seat,
        *,
        model: str,
        usage: Usage,
        waited_ms: float = 0.0,
        error: str = "",
        affected: bool = True,
    ) -> None:
        """Count a call that is over.

        `error` is one word for what went wrong, nothing if it was answered; `affected` tells
        whether its prompt was long enough to be edited.
        """
        sheet = sheet_for(model)
        self._trial.record(
            seat.conversation_id,
            Conversation(
                arm=seat.arm,
                # The price sheet's name: what stands in the model's place may be anything.
                model=sheet.name,
                born=seat.first,
                affected=affected,
                calls=1,
                answered=int(not error),
                dollars=sheet.dollars(
                    uncached=usage.fresh,
                    read=usage.read,
                    written=usage.written,
                    output=usage.output,
                ),
                prompt_tokens=usage.fresh + usage.read + usage.written,
                output_tokens=usage.output,
                waited_ms=0.0 if error else waited_ms,
                errors={error: 1} if error else {},
                agent=seat.agent,
                seen_at=time.time(),
            ),
        )

    def post(self, conversation: str, outcome: float, *, api_key: str = "") -> Arm:
        """Take down how a conversation ended, and return its arm."""
        return self._trial.post(self.tenant_of(api_key), conversation, outcome)

    def close(self) -> None:
        """Hand in what is left."""
        if not self._closed:
            self._closed = True
            atexit.unregister(self.close)
            self._trial.close()
