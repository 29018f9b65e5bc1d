"""Self-information from a causal language model in a local folder, with transformers."""

import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agora.core.memo import Memo
from agora.errors import MissingExtraError
from agora_lab.environments.data import cache_folder
from agora_lab.methods.base import SkipMethod

try:
    import torch
    import transformers
except ImportError as error:
    raise MissingExtraError(__name__, "train-encoders", "agora-lab") from error

_WINDOW_TOKENS = 1_024
_REMEMBERED_CHARACTERS = 20_000_000


@dataclass(slots=True)
class LocalModel:
    """Computes the self-information of each token of a text, on the CPU.

    A text longer than a window is scored window by window. Texts are scored one at a
    time, so the same text always gives the same bits.
    """

    path: Path
    """A folder as `from_pretrained` reads it, or a GGUF file."""
    threads: int = 1
    _tokenizer: Any = field(init=False)
    _model: Any = field(init=False)
    _bits: Memo[Sequence[tuple[str, float]]] = field(init=False)

    def __post_init__(self) -> None:
        folder = _unpacked(self.path) if self.path.suffix == ".gguf" else self.path
        if not (folder / "config.json").exists():
            raise SkipMethod(f"{folder} holds no language model: it has no config.json")
        torch.set_num_threads(self.threads)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
        self._model.train(False)
        self._bits = Memo(self._computed, _REMEMBERED_CHARACTERS)

    def bits(self, text: str) -> Sequence[tuple[str, float]]:
        """Return the tokens of `text`, each with its self-information; computed once per text."""
        return self._bits(text)

    def _computed(self, text: str) -> Sequence[tuple[str, float]]:
        clean = text.encode("utf-8", "replace").decode()
        encoded = self._tokenizer(clean, add_special_tokens=False, return_offsets_mapping=True)
        ids, spans = encoded["input_ids"], encoded["offset_mapping"]
        found: list[tuple[str, float]] = []
        for start in range(0, len(ids), _WINDOW_TOKENS):
            window = ids[start : start + _WINDOW_TOKENS]
            scores = self._scores(window)
            pieces = (clean[a:b] for a, b in spans[start : start + _WINDOW_TOKENS])
            found += zip(pieces, scores, strict=True)
        return found

    def _scores(self, ids: Sequence[int]) -> Sequence[float]:
        tokenizer = self._tokenizer
        begin = tokenizer.bos_token_id
        if begin is None:
            begin = tokenizer.eos_token_id
        with torch.inference_mode():
            given = torch.tensor([[begin, *ids[:-1]]])
            logged = torch.log_softmax(self._model(given).logits[0], dim=-1)
            chosen = logged.gather(1, torch.tensor(ids).unsqueeze(1)).squeeze(1)
        return [-value / math.log(2) for value in chosen.tolist()]


def _unpacked(file: Path) -> Path:
    """Return a folder with the weights of a GGUF file, cached: reading it takes a minute."""
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        raise SkipMethod(f"{file} needs the packages gguf and accelerate to be read") from error
    if not file.exists():
        raise SkipMethod(f"{file} does not exist")
    size = file.stat().st_size
    with file.open("rb") as opened:
        start = opened.read(1 << 20)
    name = hashlib.blake2b(start + str(size).encode(), digest_size=8).hexdigest()
    folder = cache_folder("language-models") / f"{file.stem}-{name}"
    if not (folder / "config.json").exists():
        parts = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
        # Written next to it and renamed: another process may do the same, and either may be killed.
        draft = folder.with_name(f"{folder.name}.{os.getpid()}")
        transformers.AutoTokenizer.from_pretrained(**parts).save_pretrained(draft)
        described = draft / "tokenizer_config.json"
        config = json.loads(described.read_text(encoding="utf-8"))
        # A name that every release of transformers knows: peers run older ones.
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        described.write_text(json.dumps(config), encoding="utf-8")
        read = transformers.AutoModelForCausalLM.from_pretrained(**parts)
        # The weights read from GGUF are plain numbers again, but are not saved as such.
        config = read.config.to_dict()
        config.pop("quantization_config", None)
        plain = type(read)(type(read.config).from_dict(config))
        plain.load_state_dict(read.state_dict())
        plain.save_pretrained(draft)
        try:
            draft.rename(folder)
        except OSError:
            if not (folder / "config.json").exists():
                raise
    return folder
