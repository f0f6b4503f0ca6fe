#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""64-bit words made of named bit fields: the one description that packers, gateware and C share."""

from dataclasses import dataclass

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
