"""A count of tokens for Inspect AI where the encoding that it asks for cannot be downloaded."""

import tiktoken.registry


class Quarter:
    """Counts a token per four characters."""

    def encode(self, text: str, **_: object) -> list[int]:
        return [0] * (len(text) // 4)

    encode_ordinary = encode


tiktoken.registry.ENCODINGS["o200k_base"] = Quarter()  # type: ignore[assignment]
