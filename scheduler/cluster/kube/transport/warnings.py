"""The warnings in answers of the API server: the header ``Warning`` (RFC 7234), with the code 299."""

import re
from collections.abc import Iterator
from typing import Final

_WARNING: Final = re.compile(r'\s*([0-9]{3}) [^\s",]+ "((?:[^"\\]|\\.)*)"(?: "[^"]*")?\s*(?:,|$)')
"""Code, agent, text and date."""
_MISCELLANEOUS: Final = "299"
"""The code of warnings for users; others are about caches."""
_ESCAPED: Final = re.compile(r"\\(.)")


def warning_texts(header: str) -> Iterator[str]:
    """The texts of a header, which may have several values, separated by commas. What follows an invalid one is left
    out."""
    position = 0
    while position < len(header) and (found := _WARNING.match(header, position)) is not None:
        code, text = found.groups()
        if code == _MISCELLANEOUS and text:
            yield _ESCAPED.sub(r"\1", text)
        position = found.end()
