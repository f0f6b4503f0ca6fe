#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""What the virtual board needs of an ELF file: where its bytes go, where it starts, what its symbols are."""

import struct

from dataclasses import dataclass
from pathlib import Path

_EHDR = struct.Struct("<16sHHIIIIIHHHHHH")
_PHDR = struct.Struct("<8I")
_SHDR = struct.Struct("<10I")
_SYM  = struct.Struct("<IIIBBH")

PT_LOAD, SHT_SYMTAB, PF_X = 1, 2, 1


@dataclass
class Elf:
    """A 32-bit little-endian executable.

    entry    : address of its first instruction.
    segments : [(address, bytes, size in memory, executable)].
    symbols  : {name: address}.
    """
    entry    : int
    segments : list
    symbols  : dict


def read_elf(path):
    """Returns the `Elf` of a file; ValueError where it is none."""
    data = Path(path).read_bytes()
    if len(data) < _EHDR.size or data[:6] != b"\x7fELF\x01\x01":
        raise ValueError(f"{path}: not a 32-bit little-endian ELF file")
    _, _, _, _, entry, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, _ = _EHDR.unpack_from(data)
    segments = []
    for i in range(phnum):
        kind, offset, address, _, filled, size, flags, _ = _PHDR.unpack_from(data, phoff + i*phentsize)
        if kind == PT_LOAD and size:
            segments.append((address, data[offset:offset + filled], size, bool(flags & PF_X)))
    sections = [_SHDR.unpack_from(data, shoff + i*shentsize) for i in range(shnum)]
    symbols  = {}
    for section in sections:
        if section[1] != SHT_SYMTAB:
            continue
        strings = sections[section[6]][4]
        for position in range(section[4], section[4] + section[5], _SYM.size):
            name, value, _, _, _, index = _SYM.unpack_from(data, position)
            text = data[strings + name:data.index(b"\0", strings + name)].decode()
            if text and not text.startswith("$") and index:
                symbols.setdefault(text, value)
    return Elf(entry, segments, symbols)
