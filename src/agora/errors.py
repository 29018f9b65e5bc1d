"""Every error this package raises on purpose.

AgoraError
├── ParseError           the messages do not read as a trajectory
├── UnknownFormatError   no wire format fits, or the one asked for is not known
├── BudgetError          a budget that cannot mean anything
├── PriceSheetError      a price sheet that cannot be right
├── ScoreError           a scorer did not return one number in [0, 1] per step
├── TooManyCallsError    a recorded trajectory is too long to be replayed
├── RecallError          there is no step of that number to recall
├── BundleError          a scorer that cannot be had: no such name, or a damaged bundle
├── LabelsError          a file that holds no labels, or labels that nothing can be learnt from
├── IllegalInputError    what went in breaks a provider's rule already
├── GuardError           what came out would not be accepted where what went in is
├── UnknownClientError   what was to be wrapped is no client of openai or anthropic
└── MissingExtraError    an optional dependency is absent (also an ImportError)

An error takes its facts as arguments and writes its sentence in `__str__`, so
it says the same thing after a worker process has pickled it home.
"""

from collections.abc import Sequence


class AgoraError(Exception):
    """Catch this to catch whatever Agora itself refuses to do."""


class ParseError(AgoraError):
    """A message does not fit the trajectory being read."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(position, problem)
        self.position = position
        self.problem = problem

    def __str__(self) -> str:
        return f"message {self.position} {self.problem}"


class UnknownFormatError(AgoraError):
    """No adapter reads what was given."""

    def __init__(self, found: str, known: Sequence[str]) -> None:
        super().__init__(found, tuple(known))
        self.found = found
        self.known = tuple(known)

    def __str__(self) -> str:
        return f"{self.found}; the formats are {', '.join(self.known)}"


class BudgetError(AgoraError):
    """A budget that cannot mean anything."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"budget {self.problem}"


class PriceSheetError(AgoraError):
    """A price sheet that cannot be read, or that no provider could mean."""

    def __init__(self, sheet: str, problem: str) -> None:
        super().__init__(sheet, problem)
        self.sheet = sheet
        self.problem = problem

    def __str__(self) -> str:
        return f"price sheet {self.sheet!r} {self.problem}"


class ScoreError(AgoraError):
    """A scorer did not return one number in [0, 1] for each step."""

    def __init__(self, scorer: str, problem: str) -> None:
        super().__init__(scorer, problem)
        self.scorer = scorer
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.scorer} returned {self.problem}; one number in [0, 1] per step is needed"


class TooManyCallsError(AgoraError):
    """A recorded trajectory is longer than what can be replayed in reasonable time."""

    def __init__(self, calls: int, most: int) -> None:
        super().__init__(calls, most)
        self.calls = calls
        self.most = most

    def __str__(self) -> str:
        return f"it has {self.calls:,} calls; up to {self.most:,} are replayed"


class RecallError(AgoraError):
    """There is no step of that number to recall."""

    def __init__(self, number: object, steps: int) -> None:
        super().__init__(number, steps)
        self.number = number
        self.steps = steps

    def __str__(self) -> str:
        if not self.steps:
            return f"step {self.number!r} cannot be recalled: there are no steps"
        return f"step {self.number!r} cannot be recalled: the steps are 1 to {self.steps}"


class BundleError(AgoraError):
    """There is no such scorer, or what lies in its folder is not what it has to be."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where!r} {self.problem}"


class LabelsError(AgoraError):
    """A file that holds no labels, or labels that nothing can be learnt from."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(file, problem)
        self.file = file
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.file!r} {self.problem}"


class IllegalInputError(AgoraError):
    """The messages break a provider's rule before anything was done to them."""

    def __init__(self, broken: Sequence[str]) -> None:
        super().__init__(tuple(broken))
        self.broken = tuple(broken)

    def __str__(self) -> str:
        return f"the messages would be refused as they are: {'; '.join(self.broken)}"


class GuardError(AgoraError):
    """What came out breaks a rule that what went in kept."""

    def __init__(self, broken: Sequence[str]) -> None:
        super().__init__(tuple(broken))
        self.broken = tuple(broken)

    def __str__(self) -> str:
        return f"the compressed messages would be refused: {'; '.join(self.broken)}"


class UnknownClientError(AgoraError):
    """What was to be wrapped is no client of openai or anthropic."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        return f"{self.found} cannot be wrapped; give a client of the packages openai or anthropic"


class MissingExtraError(AgoraError, ImportError):
    """An optional dependency is absent."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(module, extra)
        self.module = module
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.module} needs an extra: pip install 'agora-context[{self.extra}]'"
