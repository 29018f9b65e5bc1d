"""A student: a causal language model with its tokenizer, loaded to be taught and written again."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agora.errors import MissingExtraError
from agora_lab.fidelity.weights import WeightsError
from agora_lab.teaching.lessons import read_lessons
from agora_lab.teaching.sequences import END, START, TokenSequence, packed, sequence

try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
except ImportError as error:
    raise MissingExtraError(__name__, "judge", "agora-lab") from error


@dataclass(frozen=True, slots=True)
class TaughtModel:
    """The model and what turns text into its tokens."""

    model: Any
    tokenizer: Any

    def sequences(
        self, files: Iterable[Path], *, split: str, most_tokens: int
    ) -> list[TokenSequence]:
        """Return the lessons of files that are not longer than `most_tokens`.

        Prompts of one episode stand together in one sequence, as many as fit.

        Raises:
            LessonError: a file holds no lessons of that split.
        """
        found: list[TokenSequence] = []
        prompts: dict[str, list[TokenSequence]] = {}
        for lesson in read_lessons(files, split=split):
            one = sequence(lesson, self.tokenizer)
            if len(one.token_ids) > most_tokens:
                continue
            if lesson.step is None:
                found.append(one)
            else:
                prompts.setdefault(lesson.episode, []).append(one)
        return [*found, *(one for own in prompts.values() for one in packed(own, most_tokens))]


def load_student(folder: Path, *, threads: int = 1, attention: str = "sdpa") -> TaughtModel:
    """Return the model in a folder, in float32.

    Raises:
        WeightsError: the folder holds no model that can be taught in this chat format.
    """
    torch.set_num_threads(threads)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation=attention
        )
    except (OSError, ValueError) as error:
        raise WeightsError(folder, f"holds no model that can be loaded: {error}") from error
    for mark in (START, END):
        if len(tokenizer.encode(mark, add_special_tokens=False)) != 1:
            raise WeightsError(folder, f"has no token {mark}, which ends turns in lessons")
    return TaughtModel(model, tokenizer)


def save_student(student: TaughtModel, folder: Path) -> None:
    """Write the model in float32, with its tokenizer."""
    student.model.save_pretrained(folder)
    student.tokenizer.save_pretrained(folder)
