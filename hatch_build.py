"""The README for the package's page: its links and pictures lead to where the source is published.

In the repository they are relative, so that they can be followed in any copy of it. A release says
where it is published in `AGORA_SOURCE_URL`; without that the README goes in as it is.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

SOURCE = "AGORA_SOURCE_URL"
_LINK = re.compile(r"(!?)(\[[^\[\]]*\])\(([^()\s]+)\)")
_PICTURE = re.compile(r'(<(?:img|source)\b[^>]*?\b(?:src|srcset)=")([^"]+)"')
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def absolute(text: str, source: str, version: str) -> str:
    """Return a text of the repository's root with every relative address made absolute.

    >>> absolute("[a](docs/a.md) ![b](b.svg) [c](#c)", "https://x.test", "1.0")
    '[a](https://x.test/blob/v1.0/docs/a.md) ![b](https://x.test/raw/v1.0/b.svg) [c](#c)'
    """

    def there(target: str, kind: str) -> str:
        if "://" in target or target.startswith(("#", "mailto:")):
            return target
        return f"{source}/{kind}/v{version}/{target}"

    def link(found: re.Match[str]) -> str:
        mark, words, target = found.groups()
        return f"{mark}{words}({there(target, 'raw' if mark else 'blob')})"

    def picture(found: re.Match[str]) -> str:
        return f'{found[1]}{there(found[2], "raw")}"'

    parts = _FENCED.split(text)
    # Every second part is a block of code, where brackets are brackets.
    parts[::2] = [_PICTURE.sub(picture, _LINK.sub(link, part)) for part in parts[::2]]
    return "".join(parts)


class PublishedReadme(MetadataHookInterface):
    """Fills in what depends on where the source is published: the README and the addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` and `urls`."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = os.environ.get(SOURCE, "").rstrip("/")
        metadata["urls"] = {}
        if source:
            version = metadata["version"]
            text = absolute(text, source, version)
            metadata["urls"] = {
                "Source": source,
                "Documentation": f"{source}/blob/v{version}/docs/index.md",
                "Changelog": f"{source}/blob/v{version}/CHANGELOG.md",
                "Issues": f"{source}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
