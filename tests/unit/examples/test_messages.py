"""Messages that users read can be found in the source: a message is one template, so ``git grep`` finds its words."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LEAST = 4
"""The number of words that is enough to find a message."""
NAMES = re.compile(r"\b(?:vGPUs|(?:idle )?GPUs?)\b")
"""Names of devices, which are values in templates like names of nodes."""


def read(folder: str) -> str:
    """The files of a folder, without this one."""
    files = (path for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


SOURCE, TESTS = read("scheduler"), read("tests/unit")


def longest_phrase(message: str) -> list[str]:
    """The words of a message between numbers and names, as someone searches for them: of ``node(s) had no HCCS ring
    with 4 free chips``, those before the number."""
    parts: list[list[str]] = [[]]
    for word in NAMES.sub("1", message).split():
        if re.fullmatch(r"[A-Za-z()'/-]+", word):
            parts[-1].append(word)
        else:
            parts.append([])
    return max(parts, key=len)


def is_found(message: str) -> bool:
    """Whether the source has the longest phrase of a message, or ``LEAST`` words of it, in one line."""
    words = longest_phrase(message)
    starts = range(max(len(words) - LEAST, 0) + 1)
    return any(" ".join(words[start : start + LEAST]) in SOURCE for start in starts)


REASONS = sorted(set(re.findall(r"(node\(s\) [a-z][^\n\"`{}|]*?)(?:[,.;] |\.?[\"`\n])", read("tests/unit/plugins"))))
"""The reasons about nodes that tests expect."""


def test_reasons_about_nodes_are_found_by_their_words() -> None:
    assert len(REASONS) > 30
    assert [reason for reason in REASONS if not is_found(reason)] == []


PHRASES = [
    "had no HCCS ring with",
    "were not of the family",
    "must be asked for by one Pod",
    "is not a multiple of the",
    "has all it may have in use",
    "has its share in use",
    "of its memory and",
    "AI cores free for template",
    "Goes with its gang, which makes room for",
    "has room for the Pod that waits",
    "is nothing a queue can do",
    "Pods are deleted without a grace period",
    "so there is nothing to schedule",
    "nodes are on loan",
    "nodes have the taint",
]


@pytest.mark.parametrize("phrase", PHRASES)
def test_words_of_a_message_are_found(phrase: str) -> None:
    assert phrase in TESTS
    assert phrase in SOURCE
