"""The base of the lab's errors."""

from typing import ClassVar

from agora import AgoraError


class ProblemError(AgoraError):
    """A subject and its problem, which together are a sentence."""

    form: ClassVar[str] = "{subject} {problem}"

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(subject, problem)
        self.subject = subject
        self.problem = problem

    def __str__(self) -> str:
        return self.form.format(subject=self.subject, problem=self.problem)
