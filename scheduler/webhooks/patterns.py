"""Regular expressions that mean the same to Volcano (RE2) and to Python; what one of them cannot read is a fault.

Faults are told in RE2's words, which people search for.
"""

import re
from typing import Final

_LONGEST: Final = 4096
"""Characters; a pattern takes time to compile, and names of nodes are much shorter."""
_TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?<?[=!]|.", re.DOTALL)
_REFERENCE: Final = re.compile(r"\\[1-9]")


def pattern_fault(pattern: str) -> str:
    """Why it is no regular expression, or ""."""
    if len(pattern) > _LONGEST:
        return f"it has {len(pattern)} characters, more than {_LONGEST}"
    for token in _TOKEN.findall(pattern):
        if token.startswith("(?"):
            return _fault("invalid or unsupported Perl syntax", token)
        if _REFERENCE.fullmatch(token):
            return _fault("invalid escape sequence", token)
    try:
        re.compile(pattern)
    except re.error as error:
        return _in_re2_words(pattern, error)
    except (OverflowError, RecursionError) as error:
        return f"error parsing regexp: {error}"
    return ""


def _in_re2_words(pattern: str, error: re.error) -> str:
    at = error.pos or 0
    match error.msg.partition(" at position")[0]:
        case "missing ), unterminated subpattern":
            return _fault("missing closing )", pattern)
        case "unbalanced parenthesis":
            return _fault("unexpected )", pattern)
        case "unterminated character set":
            return _fault("missing closing ]", pattern[at:])
        case "nothing to repeat":
            return _fault("missing argument to repetition operator", pattern[at : at + 1])
        case "multiple repeat":
            return _fault("invalid nested repetition operator", pattern[at - 1 : at + 1])
        case "bad escape (end of pattern)":
            return _fault("trailing backslash at end of expression", "")
        case text if text.startswith("bad character range "):
            return _fault("invalid character class range", text.removeprefix("bad character range "))
        case text if text.startswith("bad escape "):
            return _fault("invalid escape sequence", text.removeprefix("bad escape "))
        case text:
            return _fault(text, pattern[at:])


def _fault(text: str, where: str) -> str:
    return f"error parsing regexp: {text}: `{where}`"
