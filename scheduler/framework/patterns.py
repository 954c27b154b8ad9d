"""Regular expressions with Volcano's syntax (RE2), which match in linear time."""

from typing import Final

import re2

MAX_LENGTH: Final = 4096
"""The longest pattern, in characters. Names of nodes are much shorter."""
_IN_GO: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
}
"""RE2's messages -> Go's messages for the same faults, which people search for."""


def options() -> "re2.Options":
    """Options that keep RE2 from writing to standard error."""
    result = re2.Options()
    result.log_errors = False
    return result


def pattern_fault(pattern: str) -> str:
    """Returns why the text is not a regular expression, or ""."""
    if len(pattern) > MAX_LENGTH:
        return f"it has {len(pattern)} characters, more than {MAX_LENGTH}"
    try:
        re2.compile(pattern, options())
    except UnicodeError as error:
        return f"error parsing regexp: {error}"
    except re2.error as error:
        said, _, where = error.args[0].decode(errors="replace").partition(": ")
        return f"error parsing regexp: {_IN_GO.get(said, said)}: `{where}`"
    return ""
