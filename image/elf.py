"""Removes symbols and debug information from shared libraries.

The dynamic loader reads the segments of a library, which the program header lists. Symbol tables, debug information and
the table of sections are in no segment, and come after them in the files that linkers write.
"""

import struct
from typing import Final

_MAGIC: Final = b"\x7fELF\x02\x01"
"""64 bits, little-endian, as on x86-64 and AArch64."""
_HEADER: Final = 64
_SECTIONS_OFFSET: Final = 40
_SECTION_FIELDS: Final = 58


def without_symbols(library: bytes) -> bytes:
    """The library without what follows its last segment. Returns other files unchanged."""
    if not library.startswith(_MAGIC) or len(library) < _HEADER:
        return library
    (table,) = struct.unpack_from("<Q", library, 32)
    size, count = struct.unpack_from("<HH", library, 54)
    end = max(_HEADER, table + size * count)
    for entry in range(table, table + size * count, size):
        (offset,) = struct.unpack_from("<Q", library, entry + 8)
        (length,) = struct.unpack_from("<Q", library, entry + 32)
        end = max(end, offset + length)
    kept = bytearray(library[:end])
    struct.pack_into("<Q", kept, _SECTIONS_OFFSET, 0)
    struct.pack_into("<HHH", kept, _SECTION_FIELDS, 0, 0, 0)  # size and number of sections, and where their names are
    return bytes(kept)
