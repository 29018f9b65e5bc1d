"""A tiny language model with random weights and a tokenizer of bytes, for tests of the judge."""

from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% if tools %}<|im_start|>tools\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}"
    "<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for call in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}'
    "\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Like that of Qwen: tools before the chat, calls as JSON."""
_END = "<|im_end|>"
PLAIN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Like that of SmolLM2: it knows no tools."""


def tiny_model(seed: int = 0) -> Any:
    """Return a model of two layers, four heads, two of keys and values, in float32."""
    torch.manual_seed(seed)
    make_config: Any = LlamaConfig
    config = make_config(
        vocab_size=300,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4_096,
    )
    make_model: Any = LlamaForCausalLM
    model = make_model(config).float().eval()
    for weight in model.parameters():
        weight.data.mul_(4.0)
    return model


def tiny_tokenizer(template: str = TEMPLATE) -> Any:
    """Return a tokenizer with a token per byte and the marks of the template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    known = Tokenizer(models.BPE(vocab={sign: at for at, sign in enumerate(alphabet)}, merges=[]))
    known.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    known.decoder = decoders.ByteLevel()
    make: Any = PreTrainedTokenizerFast
    made = make(tokenizer_object=known, eos_token=_END)
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    made.chat_template = template
    return made
