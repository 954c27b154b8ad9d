"""What a recording is made of: frames, one after the other, of everything that the cache of a scheduler was told.

A recording is a file of gzip members, each a run of msgpack frames that belong together, every frame with its length
before it; one that was cut short is good up to its last whole member. It begins with what there was and goes on with
what changed, so it is small, and it stands alone. Objects are kept as the scheduler reads them: fields it does not use
are not in a recording, unless other programs are shown the whole object.
"""

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.cache.admissions import Admitted
from scheduler.framework.configuration import Configuration

FORMAT: Final = 1
"""Grows when older recordings can no longer be read."""


class Frame(msgspec.Struct, array_like=True, tag=True):
    """Base of all frames; the tag is the name of the class."""


class Begin(Frame):
    """The first frame: by whom."""

    format: int
    program: str
    """Version of the program."""
    scheduler_names: list[str]
    default_queue: str
    node_selector: list[tuple[str, str]]


class Put(Frame):
    """An object was added or changed."""

    kind: str
    data: msgspec.Raw


class Confirmed(Frame):
    """The API server answered a write with this version of an object."""

    kind: str
    data: msgspec.Raw


class Dropped(Frame):
    """An object is gone."""

    kind: str
    namespace: str
    name: str


class Remembered(Frame):
    """What is known of a Pod by a signature (the key is in no recording), or by what its annotations once were."""

    pod: str
    uid: str
    record: tuple[str, str, dict[str, str], dict[str, str]] | None
    """Node, queue, chips and cards."""
    earlier: tuple[tuple[str, str], ...]


class Since(Frame):
    """Since when every binding is recorded, in Unix time."""

    moment: float


class Guarded(Frame):
    """From here on only those PodGroups are admitted that are named here, and those that sessions admit."""

    admitted: list[Admitted]


class Usage(Frame):
    """What was heard of the load of nodes."""

    data: msgspec.Raw


class Failed(Frame):
    """A binding or an eviction did not come about."""

    pod: str
    uid: str
    node: str
    """Where it was to be bound; "" for an eviction."""


class Opened(Frame):
    """A session began, over all that came before this frame."""

    now: float
    nodes_limit: int
    configuration: Configuration
    """A recording of many sessions repeats it; compression takes care of that."""


class Original(Frame):
    """An object as it was written, to be shown to other programs."""

    kind: str
    namespace: str
    name: str
    json: bytes


class Answered(Frame):
    """What other programs replied to the plugins of the session, in order."""

    replies: list[tuple[bytes, str, bool]] = []
    """Body, problem, whether nobody was there."""
    questions: list[bytes] = []
    """What each was a reply to, as a digest. Recordings made before there were any have none."""


class Verdict(msgspec.Struct, frozen=True):
    """What a session decided, in words that do not change with the program. Pods and PodGroups are
    ``namespace/name``."""

    binds: dict[str, tuple[str, dict[str, str]]] = {}
    """Pod -> node and annotations."""
    evictions: dict[str, str] = {}
    """Pod -> reason."""
    pod_groups: dict[str, tuple[str, list[tuple[str, str, str, str]], int, int, int]] = {}
    """PodGroup -> phase, conditions (type, status, reason, message), running, succeeded, failed."""
    pods: dict[str, tuple[str, str, str]] = {}
    """Pod that waits -> reason, message, nominated node."""
    queues: dict[str, dict[str, str]] = {}
    """Queue -> allocated."""
    ungates: dict[str, str] = {}
    """Pod -> the scheduling gate taken off it."""


class Decided(Frame):
    """What the session that was opened last came to."""

    verdict: Verdict


class Assumed(Frame):
    """The decisions were carried out, but for those that say nothing new."""

    pod_groups: list[str]
    pods: list[str]


class Standing(Frame):
    """At the beginning: what was assumed of earlier decisions and is not yet seen."""

    verdict: Verdict


AnyFrame = (
    Begin
    | Since
    | Put
    | Remembered
    | Original
    | Confirmed
    | Dropped
    | Usage
    | Failed
    | Opened
    | Answered
    | Decided
    | Assumed
    | Standing
    | Guarded
)


class RecordingError(Exception):
    """A file is no recording, or none that this program can read."""


_LENGTH: Final = 4
_CHUNK: Final = 1 << 16
_GZIP: Final = 31
"""zlib's number for the gzip format."""
LARGEST_MEMBER: Final = 1 << 30
"""Bytes of a member, decompressed: it is read as a whole."""
LARGEST_RATIO: Final = 100
"""Bytes of a file, decompressed, for each that it takes; recordings have about a tenth of that. The first
``LARGEST_MEMBER`` are not counted."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AnyFrame).decode


def joined(frames: Iterable[AnyFrame]) -> bytes:
    """Frames as they stand in a member, before compression."""
    encoded = map(_encode, frames)
    return b"".join(len(data).to_bytes(_LENGTH, "big") + data for data in encoded)


def read_frames(path: Path) -> Iterator[AnyFrame]:
    """The frames of a file, up to its last whole member. Raises RecordingError."""
    try:
        for member in _members(path):
            position = 0
            while position < len(member):
                start = position + _LENGTH
                position = start + int.from_bytes(member[position:start], "big")
                yield _decode(member[start:position])
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None
    except (zlib.error, msgspec.DecodeError, RecursionError) as error:
        raise RecordingError(f"{path}: not a recording: {error}") from None


def _members(path: Path) -> Iterator[bytes]:
    """Raises RecordingError when one, or all together, are larger than a recording's."""
    with path.open("rb") as file:
        data = b""
        inflate, member, whole = zlib.decompressobj(_GZIP), bytearray(), 0
        while data or (data := file.read(_CHUNK)):
            part = inflate.decompress(data)
            member += part
            whole += len(part)
            if len(member) > LARGEST_MEMBER:
                raise RecordingError(f"{path}: a member of more than {LARGEST_MEMBER} bytes when decompressed")
            if whole > LARGEST_MEMBER + LARGEST_RATIO * file.tell():
                raise RecordingError(
                    f"{path}: the first {file.tell()} bytes are {whole} when decompressed, "
                    f"at most {LARGEST_RATIO} times as many are read"
                )
            data = inflate.unused_data
            if inflate.eof:
                yield bytes(member)
                inflate, member = zlib.decompressobj(_GZIP), bytearray()


def packed(obj: Any) -> msgspec.Raw:
    """An object as it is kept in a frame."""
    return msgspec.Raw(msgspec.msgpack.encode(obj))
