"""Libraries without their symbols."""

import _ctypes
import ctypes
import struct
from pathlib import Path

from image.elf import without_symbols


def library() -> bytes:
    return Path(_ctypes.__file__).read_bytes()


def test_a_library_without_symbols_can_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    stripped = without_symbols(library())
    path.write_bytes(stripped)
    assert hasattr(ctypes.PyDLL(str(path)), "PyInit__ctypes")
    assert len(stripped) <= len(library())


def test_what_follows_the_segments_is_removed() -> None:
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<QQ", header, 32, 64, 4096)  # where the program header and the table of sections are
    struct.pack_into("<HHHHH", header, 54, 56, 1, 64, 9, 8)
    segment = bytearray(56)
    struct.pack_into("<Q", segment, 8, 0)
    struct.pack_into("<Q", segment, 32, 200)
    code = bytes(range(80))

    stripped = without_symbols(bytes(header + segment) + code + b"symbols" * 1000)

    assert stripped[120:] == code
    assert struct.unpack_from("<Q", stripped, 40) == (0,)
    assert struct.unpack_from("<HHH", stripped, 58) == (0, 0, 0)


def test_removing_symbols_twice_changes_nothing() -> None:
    once = without_symbols(library())
    assert without_symbols(once) == once


def test_other_files_stay_as_they_are() -> None:
    for data in (b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + bytes(100), b"\x7fELF\x02\x01"):
        assert without_symbols(data) == data
