"""A student as a GGUF file, which llama.cpp plays several times as fast as torch.

The file that the student came from is written once more with the student's tensors: sizes,
tokenizer and chat template stay as they are.
"""

import os
import re
from pathlib import Path
from typing import Any, Literal

from agora.errors import MissingExtraError
from agora_lab.fidelity.weights import WeightsError

try:
    import gguf
    import numpy as np
except ImportError as error:
    raise MissingExtraError(__name__, "judge", "agora-lab") from error

_WRITTEN_ANEW = ("GGUF.", "general.architecture", "general.file_type")
"""Fields that the writer writes itself, or that say how the old tensors were stored."""
_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_PARTS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BLOCK = re.compile(r"blk\.([0-9]+)\.([a-z_]+)\.weight")
_STORED = {
    "f16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}
Storage = Literal["f16", "q8_0"]


def export(model: Any, source: Path, target: Path, *, storage: Storage = "q8_0") -> Path:
    """Write a Llama model as `target`, in the place of the tensors of `source`.

    Raises:
        WeightsError: `source` is no GGUF file, or not one of this model.
    """
    try:
        reader = gguf.GGUFReader(source)
    except (OSError, ValueError) as error:
        raise WeightsError(source, f"is no GGUF file that can be read: {error}") from error
    architecture = str(reader.fields["general.architecture"].contents())
    if architecture != "llama":
        raise WeightsError(source, f"is of the architecture {architecture!r}; only llama is known")
    weights = model.state_dict()
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    draft.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(draft, architecture)
    try:
        _copy_fields(reader, writer)
        tensor_type, file_type = _STORED[storage]
        writer.add_file_type(file_type)
        for tensor in reader.tensors:
            name = torch_name(tensor.name)
            if name not in weights:
                raise WeightsError(source, f"has a tensor {tensor.name} that the student has not")
            values = weights[name].detach().float().numpy()
            if values.shape != tuple(int(size) for size in reversed(tensor.shape)):
                raise WeightsError(
                    source, f"has {tensor.name} as {list(tensor.shape)}; it is of another model"
                )
            values = _as_llama(tensor.name, values, model.config)
            # Vectors are small, and llama.cpp wants them whole.
            own = tensor_type if values.ndim > 1 else gguf.GGMLQuantizationType.F32
            stored = gguf.quants.quantize(np.ascontiguousarray(values), own)
            writer.add_tensor(tensor.name, stored, raw_dtype=own)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    return target


def torch_name(name: str) -> str:
    """Return what transformers calls a tensor of a GGUF file; as it is where unknown.

    >>> torch_name("blk.3.attn_q.weight")
    'model.layers.3.self_attn.q_proj.weight'
    """
    block = _BLOCK.fullmatch(name)
    if block is None or block[2] not in _PARTS:
        return _NAMES.get(name, name)
    return f"model.layers.{block[1]}.{_PARTS[block[2]]}.weight"


def _as_llama(name: str, values: Any, config: Any) -> Any:
    """Return a tensor as llama.cpp wants it.

    Both rotate pairs of a head's rows: transformers the first half with the second, llama.cpp
    neighbours. So the rows of queries and keys stand in another order.
    """
    heads = {
        "attn_q": config.num_attention_heads,
        "attn_k": config.num_key_value_heads,
    }
    block = _BLOCK.fullmatch(name)
    if block is None or block[2] not in heads:
        return values
    count = heads[block[2]]
    halves = values.reshape(count, 2, values.shape[0] // count // 2, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


def _copy_fields(reader: Any, writer: Any) -> None:
    for name, field in reader.fields.items():
        if name.startswith(_WRITTEN_ANEW):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=inner)
