"""The format of a recording: a sequence of frames with every input of a scheduler's cache, and its decisions.

A recording is a file of gzip members, each a run of msgpack frames that belong together, every frame with its length
before it; a truncated one is valid up to its last whole member. It begins with the state at its start and continues
with the changes, so it is small and self-contained. Objects are recorded as the scheduler decodes them: fields that it
does not use are missing, unless other programs receive the whole object.
"""

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.api.decisions import Decisions
from scheduler.api.names import QUEUE_ALLOCATION_GATE
from scheduler.cache.admissions import Admitted
from scheduler.framework.configuration import Configuration
from scheduler.framework.external_calls import ExternalRequest

FORMAT: Final = 1
"""Grows when older recordings can no longer be read."""


class Frame(msgspec.Struct, array_like=True, tag=True):
    """Base of all frames. The tag is the name of the class; seven classes have kept the tag of an earlier name."""


class Begin(Frame):
    """The first frame: the program and the scheduler that made the recording."""

    format: int
    program: str
    """Version of the program."""
    scheduler_names: list[str]
    default_queue: str
    node_selector: list[tuple[str, str]]


class ObjectPut(Frame, tag="Put"):
    """An object was added or changed."""

    kind: str
    data: msgspec.Raw


class Confirmed(Frame):
    """The API server answered a write with this version of an object."""

    kind: str
    data: msgspec.Raw


class Dropped(Frame):
    """An object was deleted."""

    kind: str
    namespace: str
    name: str


class BindingProof(Frame, tag="Remembered"):
    """What a signature proves about a Pod (no recording contains the key), or what its annotations were before."""

    pod: str
    uid: str
    record: tuple[str, str, dict[str, str], dict[str, str]] | None
    """Node, queue, chips and cards."""
    earlier: tuple[tuple[str, str], ...]


class RecordsExpected(Frame, tag="Since"):
    """Every binding since this Unix time has a record."""

    moment: float


class AdmissionsEnforced(Frame, tag="Guarded"):
    """From here on, only these PodGroups count as admitted, and the PodGroups that sessions admit."""

    admitted: list[Admitted]


class KeptAnnotations(Frame, tag="PodAnnotations"):
    """The annotations of Pods that plugins require; they take part in the classes of later Pods."""

    keys: list[str]


class NodeUsages(Frame, tag="Usage"):
    """The usage of nodes."""

    data: msgspec.Raw


class Failed(Frame):
    """A binding or an eviction failed."""

    pod: str
    uid: str
    node: str
    """Where it was to be bound; "" for an eviction."""


class Opened(Frame):
    """A session began, with all inputs before this frame."""

    now: float
    nodes_limit: int
    configuration: Configuration
    """A recording of many sessions repeats it; compression takes care of that."""


class Original(Frame):
    """An object as it was written, for other programs."""

    kind: str
    namespace: str
    name: str
    json: bytes


class Answered(Frame):
    """The replies of other programs to the plugins of the session, in order."""

    replies: list[tuple[bytes, str, bool]] = []
    """Body, problem, and whether there was no answer at all."""
    questions: list[bytes] = []
    """The digest of the request of each reply. Older recordings have none."""


class RecordedDecisions(msgspec.Struct, frozen=True):
    """The decisions of a session, in a form that is stable across versions. Pods and PodGroups are
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
    writes: dict[str, str] = {}
    """Object that a plugin writes -> the body, as JSON."""
    queue_cards: dict[str, dict[str, dict[str, str]]] = {}
    """Queue -> card -> its amounts."""
    queue_groups: dict[str, dict[str, int]] | None = None
    """Queue -> phase -> number of PodGroups. None: recorded before the status of queues had these numbers."""
    queue_deserved: dict[str, dict[str, str]] | None = None
    """Queue -> its deserved amounts, if these have changed. None: recorded before the status of queues had these
    amounts."""
    queue_without: dict[str, dict[str, Any]] | None = None
    """The root queue -> what counts in no queue. None: recorded before the status of the root had these amounts."""


class Decided(Frame):
    """The decisions of the session that was opened last."""

    decisions: RecordedDecisions


class Assumed(Frame):
    """The decisions were carried out, except statuses that said nothing new."""

    pod_groups: list[str]
    pods: list[str]
    queues: list[str] | None = None
    """None: all; older recordings."""


class PresentAssumptions(Frame, tag="Standing"):
    """The assumed decisions that the watch has not confirmed yet, at the beginning of a file."""

    decisions: RecordedDecisions


AnyFrame = (
    Begin
    | RecordsExpected
    | KeptAnnotations
    | ObjectPut
    | BindingProof
    | Original
    | Confirmed
    | Dropped
    | NodeUsages
    | Failed
    | Opened
    | Answered
    | Decided
    | Assumed
    | PresentAssumptions
    | AdmissionsEnforced
)


class RecordingError(Exception):
    """A file is no recording, or none that this program can read."""


_LENGTH: Final = 4
_CHUNK: Final = 1 << 16
_GZIP: Final = 31
"""zlib's number for the gzip format."""
MAX_MEMBER: Final = 1 << 30
"""Bytes of a member, decompressed: it is read as a whole."""
MAX_RATIO: Final = 100
"""Bytes of a file, decompressed, for each that it takes; recordings have about a tenth of that. The first
``MAX_MEMBER`` are not counted."""
_DIGEST_BYTES: Final = 16
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
            if len(member) > MAX_MEMBER:
                raise RecordingError(f"{path}: a member of more than {MAX_MEMBER} bytes when decompressed")
            if whole > MAX_MEMBER + MAX_RATIO * file.tell():
                raise RecordingError(
                    f"{path}: the first {file.tell()} bytes are {whole} when decompressed, "
                    f"at most {MAX_RATIO} times as many are read"
                )
            data = inflate.unused_data
            if inflate.eof:
                yield bytes(member)
                inflate, member = zlib.decompressobj(_GZIP), bytearray()


def packed(obj: Any) -> msgspec.Raw:
    """An object as it is kept in a frame."""
    return msgspec.Raw(msgspec.msgpack.encode(obj))


def recorded_decisions(decisions: Decisions) -> RecordedDecisions:
    """The decisions of a session without its Events, which follow from the rest."""
    return RecordedDecisions(
        binds={bind.task.key: (bind.node, bind.annotations) for bind in decisions.binds},
        evictions={eviction.task.key: eviction.reason for eviction in decisions.evictions},
        pod_groups={
            f"{update.namespace}/{update.name}": (
                update.phase,
                [(c.type, c.status, c.reason, c.message) for c in update.conditions],
                update.running,
                update.succeeded,
                update.failed,
            )
            for update in decisions.pod_groups
        },
        pods={pod.task.key: pod[1:] for update in decisions.pods for pod in update.pods()},
        queues={queue.name: queue.allocated for queue in decisions.queues},
        ungates={ungate.task.key: QUEUE_ALLOCATION_GATE for ungate in decisions.ungates},
        writes={
            f"{write.kind.name} {write.namespace}/{write.name}": msgspec.json.encode(write.body).decode()
            for write in decisions.writes
        },
        queue_cards={queue.name: queue.cards for queue in decisions.queues if queue.cards is not None},
        queue_groups={queue.name: queue.groups for queue in decisions.queues if queue.groups},
        queue_deserved={queue.name: queue.deserved for queue in decisions.queues if queue.deserved is not None},
        queue_without={
            queue.name: queue.without_queue for queue in decisions.queues if queue.without_queue is not None
        },
    )


def digest_of(request: ExternalRequest) -> bytes:
    """Identifies a request, whatever the order of its fields."""
    try:
        asked = msgspec.json.encode(msgspec.json.decode(request.body), order="sorted")
    except (msgspec.MsgspecError, RecursionError):
        asked = request.body
    return hashlib.blake2b(b"%b\n%b" % (request.url.encode(), asked), digest_size=_DIGEST_BYTES).digest()
