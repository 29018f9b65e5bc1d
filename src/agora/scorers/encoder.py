"""The encoder of a bundle: texts or pairs of texts in, numbers out, by ONNX Runtime.

Each text runs alone and without padding. On one thread a batch is no faster, and an int8 model may
round by the largest number of a batch, so that a text would score differently in another batch.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agora.errors import BundleError, MissingExtraError
from agora.scorers.bundle import MODEL, TOKENIZER, TOKENS, Bundle, unsealed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Possible inputs of an encoder. The exporter leaves out those that a model does not use."""
_AGAIN = "train or install it again"

Text = str | tuple[str, str]
"""An input: a text, or a pair that the tokenizer joins."""
Feed = dict[str, "NDArray[np.int64]"]
"""The arrays of one forward pass, 1 x length each."""


class Encoder:
    """A model and its tokenizer, read from the checked bytes of a bundle.

    The bundle holds `model.onnx` (the inputs of `INPUTS` that it needs, each
    batch x length; its first output has one row per text) and
    `tokenizer.json`. Its settings have the number of `tokens` to read of a text,
    and are sealed (`sealed`). Every file of the bundle is checked against its hash. Neither library
    opens a file, and only operators of ONNX Runtime itself run.

    Use `encoder_of`, which loads a bundle once per process. Calls from several
    threads at once are safe.
    """

    def __init__(self, bundle: Bundle, threads: int = 1) -> None:
        """Read and check the whole bundle, and load the model.

        Raises:
            BundleError: A file or a setting was changed.
            MissingExtraError: The extra `onnx` is not installed.
        """
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtraError(__name__, "onnx") from error
        self.settings = unsealed(bundle)
        tokens = self.settings.get("tokens", TOKENS)
        if type(tokens) is not int or not 8 <= tokens <= 1 << 16:
            raise BundleError(str(bundle.folder), f"wants to read {tokens!r} tokens; {_AGAIN}")
        files = {name: bundle.read(name) for name in bundle.files}
        for name in (MODEL, TOKENIZER):
            if name not in files:
                raise BundleError(str(bundle.folder), f"has no {name}; {_AGAIN}")
        if b"location" in files[MODEL]:
            # External weights would be read by path and without a hash.
            raise BundleError(str(bundle.folder / MODEL), "has its weights in another file")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.use_deterministic_compute = True
        options.log_severity_level = 4
        # A waiting thread must not spin on the agent's core.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._model: Any = onnxruntime.InferenceSession(
                files[MODEL], options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer = tokenizer_of(files[TOKENIZER], tokens)
        except MissingExtraError:
            raise
        except Exception as error:
            raise BundleError(
                str(bundle.folder), f"cannot be loaded ({type(error).__name__}); {_AGAIN}"
            ) from error
        self._inputs = tuple(one.name for one in self._model.get_inputs())
        if not set(self._inputs) <= set(INPUTS):
            raise BundleError(
                str(bundle.folder / MODEL),
                f"asks for {', '.join(self._inputs)}; an encoder may ask for {', '.join(INPUTS)}",
            )

    def feed(self, text: Text) -> Feed:
        """Return the model's inputs for a text or a pair, cut to `tokens`, without padding."""
        import numpy as np

        found = self._tokenizer.encode(*((text,) if isinstance(text, str) else text))
        columns = {
            "input_ids": found.ids,
            "attention_mask": found.attention_mask,
            "token_type_ids": found.type_ids,
        }
        return {name: np.array([columns[name]], dtype=np.int64) for name in self._inputs}

    def run(self, feed: Feed) -> "NDArray[np.float32]":
        """Return the model's first output for one feed: the bare forward pass."""
        output: NDArray[np.float32] = self._model.run(None, feed)[0]
        return output

    def encode(self, texts: Sequence[Text]) -> "NDArray[np.float32]":
        """Return one row per text, in their order; equal texts are run once."""
        import numpy as np

        rows = {text: self.run(self.feed(text))[0] for text in dict.fromkeys(texts)}
        if not rows:
            return np.zeros((0, 0), dtype=np.float32)
        return np.stack([rows[text] for text in texts])


@lru_cache(maxsize=8)
def encoder_of(bundle: Bundle, threads: int = 1) -> Encoder:
    """Return the encoder of a bundle, loaded once per process.

    Raises:
        BundleError: A file or a setting was changed.
        MissingExtraError: The extra `onnx` is not installed.
    """
    return Encoder(bundle, threads)


def tokenizer_of(data: bytes, tokens: int) -> Any:
    """Return the tokenizer in a `tokenizer.json`, as training and serving use it.

    It truncates the longer side of a pair first and does not pad, despite the file. Special
    tokens in a text are plain text: an observation must not end its pair.

    Raises:
        MissingExtraError: The extra `onnx` is not installed.
    """
    try:
        import tokenizers
    except ImportError as error:
        raise MissingExtraError(__name__, "onnx") from error
    tokenizer = tokenizers.Tokenizer.from_buffer(data)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=tokens, strategy="longest_first")
    tokenizer.encode_special_tokens = True
    return tokenizer
