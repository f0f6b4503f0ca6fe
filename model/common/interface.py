#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Enums and structs of C functions: the one description that C, ctypes and numpy share. Structs of files and frames: `litetern.model.common.layout`."""

import ctypes

import numpy as np

# Enum ---------------------------------------------------------------------------------------------


class Enum:
    """A C enum: `ENUM.NAME` is a value, an int.

    items  : (NAME, description), numbered from 0 on.
    prefix : of the names in C.
    count  : name in C of how many there are; "": none.
    bits   : values are 1 << number.
    """
    def __init__(self, name, prefix, description, items, count="", bits=False):
        self.name, self.prefix, self.description, self.count = name, prefix, description, count
        self.items = tuple((item, 1 << number if bits else number, text) for number, (item, text) in enumerate(items))
        self.names = tuple(item.lower() for item, _, _ in self.items)
        vars(self).update({item: value for item, value, _ in self.items})

    def __len__(self):
        return len(self.items)

    def of(self, bits):
        """Names, in lower case, of the bits that are set."""
        return [item.lower() for item, value, _ in self.items if bits & value]

# Struct -------------------------------------------------------------------------------------------

# Kind: (C, ctypes, bytes; None: a pointer's).
KINDS = {
    "u4":      ("uint32_t ",    ctypes.c_uint32, 4),
    "u8":      ("uint64_t ",    ctypes.c_uint64, 8),
    "f4":      ("float ",       ctypes.c_float,  4),
    "size":    ("size_t ",      ctypes.c_size_t, None),
    "address": ("uintptr_t ",   ctypes.c_void_p, None),
    "pointer": ("void *",       ctypes.c_void_p, None),
    "data":    ("const void *", ctypes.c_void_p, None),
}


class Function:
    """A member that points to a function: kind of the result (None: void); (kind or struct, name) of each argument. Structs come by pointer."""
    def __init__(self, result, *arguments):
        self.result, self.arguments = result, arguments
        self.ctypes = ctypes.CFUNCTYPE(None if result is None else KINDS[result][1],
            *(ctypes.POINTER(kind.ctypes) if isinstance(kind, Interface) else KINDS[kind][1] for kind, _ in arguments))

    def c(self, name):
        arguments = ", ".join(f"const struct {kind.name} *{argument}" if isinstance(kind, Interface) else KINDS[kind][0] + argument
            for kind, argument in self.arguments)
        return f"{'void ' if self.result is None else KINDS[self.result][0]}(*{name})({arguments or 'void'})"


class Interface:
    """A C struct, laid out as compilers do. members: (name, one of `KINDS`, or that and "[number]", or a `Function`; description)."""
    def __init__(self, name, description, members):
        self.name, self.description, self.members = name, description, tuple(members)
        self.ctypes = type(name, (ctypes.Structure,), {"_fields_": [(member, self._ctypes(kind)) for member, kind, _ in self.members]})

    @staticmethod
    def _array(kind):
        kind, _, number = kind.partition("[")
        return kind, int(number.rstrip("]")) if number else None

    def _ctypes(self, kind):
        if isinstance(kind, Function):
            return kind.ctypes
        kind, number = self._array(kind)
        return KINDS[kind][1] if number is None else KINDS[kind][1]*number

    def c(self, member, kind):
        """A member's declaration."""
        if isinstance(kind, Function):
            return kind.c(member)
        kind, number = self._array(kind)
        return f"{KINDS[kind][0]}{member}" + ("" if number is None else f"[{number}]")

    def dtype(self, pointer_bytes):
        """numpy.dtype of a machine whose pointers have so many bytes; pointers are unsigned integers."""
        names, formats, offsets, end, widest = [], [], [], 0, 4
        for member, kind, _ in self.members:
            kind, number = (None, None) if isinstance(kind, Function) else self._array(kind)
            width  = (KINDS[kind][2] if kind else None) or pointer_bytes
            end    = -(-end//width)*width
            scalar = f"<{'f' if kind == 'f4' else 'u'}{width}"
            names.append(member)
            formats.append(scalar if number is None else (scalar, number))
            offsets.append(end)
            end, widest = end + width*(number or 1), max(widest, width)
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": -(-end//widest)*widest})
