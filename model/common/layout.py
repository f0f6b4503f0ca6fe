#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Words made of named bit fields and structs in memory: the one description that packers, gateware and C share."""

from dataclasses import dataclass

import numpy as np

# Field --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """Bits ``lsb`` … ``lsb + width - 1`` of a 64-bit word, unsigned."""
    name        : str
    lsb         : int
    width       : int
    description : str

    @property
    def mask(self):
        return (1 << self.width) - 1


# Word ---------------------------------------------------------------------------------------------


class Word:
    """A 64-bit little-endian word of :class:`Field`.

    ``magic``, where given, is the value of the field called ``magic``; `pack` writes it and `check`
    refuses another one.
    """
    def __init__(self, name, description, fields, magic=None):
        self.name, self.description, self.fields, self.magic = name, description, tuple(fields), magic
        used = 0
        for field in self.fields:
            bits = field.mask << field.lsb
            if field.lsb + field.width > 64 or used & bits:
                raise ValueError(f"{name}.{field.name}: bits overlap another field or leave the 64-bit word")
            used |= bits
        self._by_name = {field.name: field for field in self.fields}

    def __getitem__(self, name):
        return self._by_name[name]

    def pack(self, **values):
        """Returns the word as an int; raises ValueError for a value that its field cannot hold."""
        if self.magic is not None:
            values["magic"] = self.magic
        word = 0
        for name, value in values.items():
            if name not in self._by_name:
                raise ValueError(f"{self.name} has no field {name!r} (fields: {', '.join(self._by_name)})")
            field = self._by_name[name]
            if not 0 <= int(value) <= field.mask:
                raise ValueError(f"{self.name}.{name} = {value}: must lie in 0 … {field.mask}")
            word |= int(value) << field.lsb
        return word

    def unpack(self, word):
        """Returns {field name: value} of a 64-bit word (int)."""
        return {field.name: (int(word) >> field.lsb) & field.mask for field in self.fields}

    def slice(self, signal, name):
        """Returns the bits of `name` from anything that slices like a Migen Signal."""
        field = self._by_name[name]
        return signal[field.lsb:field.lsb + field.width]

# Struct -------------------------------------------------------------------------------------------


class Struct:
    """A little-endian struct without padding, of 32-bit members, lists of them and byte strings.

    members: tuples (name, numpy type, description); the type is one of `C_TYPES`, that and its count ("u4[8]"), or "S<n>" (n bytes of text).
    """
    C_TYPES = {"u4": "uint32_t", "i4": "int32_t", "f4": "float"}

    def __init__(self, name, description, members):
        self.name, self.description, self.members = name, description, tuple(members)
        for member, kind, _ in self.members:
            if self.list_of(kind)[0] not in self.C_TYPES and not (kind.startswith("S") and int(kind[1:]) % 4 == 0):
                raise ValueError(f"{name}.{member}: type {kind!r} must be one of {', '.join(self.C_TYPES)}, such a one[count] or S<multiple of 4>")
        self.dtype = np.dtype([(member, kind) if kind[0] == "S" else (member, "<" + self.list_of(kind)[0], *self.list_of(kind)[1:])
            for member, kind, _ in self.members])

    @staticmethod
    def list_of(kind):
        """(type, count) of a list, (type,) of a single member."""
        single, _, count = kind.partition("[")
        return (single, int(count[:-1])) if count[:-1].isdigit() and count[-1] == "]" else (kind,)

    @property
    def size(self):
        return self.dtype.itemsize
