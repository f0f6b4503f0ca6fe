#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""UART0 of the processing system: what the firmware's driver sees of a Cadence UART, and byte queues for the other end."""

from collections import deque

FIFO_BYTES = 64
BITS       = 10  # Of a byte on the line.

CONTROL, INT_STATUS, STATUS, FIFO = 0x00, 0x14, 0x2C, 0x30
STATUS_RX_EMPTY, STATUS_RX_FULL, STATUS_TX_EMPTY = 0x02, 0x04, 0x08
CONTROL_RESET, CONTROL_ENABLE, CONTROL_MASK, INT_OVERRUN = 0x03, 0x14, 0x3C, 0x20


class UART:
    """seconds : function that returns the board's time; `baud` needs it.

    baud : None for a line as fast as its ends: bytes wait outside until the receive FIFO has room. Else they arrive at that rate, room or not.
    """
    BASE, SIZE = 0xE000_0000, 0x1000

    def __init__(self, seconds=None):
        self.seconds    = seconds
        self.baud       = None
        self.registers  = {}
        self.waiting    = deque()      # From the host, not in the FIFO yet.
        self.fifo       = deque()
        self.sent       = bytearray()  # From the firmware.
        self.idle_polls = 0            # Times in a row that the firmware looked and found nothing.
        self.on_idle    = lambda: None
        self._arrived   = 0.0          # Time up to which bytes have arrived.

    # Host's side ----------------------------------------------------------------------------------

    def put(self, data):
        """Bytes towards the firmware."""
        self.idle_polls = 0
        if self.baud and not self.waiting:
            self._arrived = self.seconds()
        self.waiting.extend(data)

    def take(self):
        """All bytes from the firmware so far."""
        data, self.sent = bytes(self.sent), bytearray()
        return data

    # CPU's side -----------------------------------------------------------------------------------

    def _arrive(self):
        """Bytes from the host reach the FIFO."""
        fifo, waiting = self.fifo, self.waiting
        if self.baud is None:
            while waiting and len(fifo) < FIFO_BYTES:
                fifo.append(waiting.popleft())
            return
        byte  = BITS/self.baud
        count = int((self.seconds() - self._arrived)/byte)
        self._arrived += count*byte
        for _ in range(min(count, len(waiting))):
            if len(fifo) < FIFO_BYTES:
                fifo.append(waiting.popleft())
            else:
                waiting.popleft()
                self.registers[INT_STATUS] = self.registers.get(INT_STATUS, 0) | INT_OVERRUN

    def read(self, offset):
        if offset == STATUS:
            fifo = self.fifo
            if self.waiting:
                self._arrive()
            if fifo:
                return STATUS_TX_EMPTY | (STATUS_RX_FULL if len(fifo) == FIFO_BYTES else 0)
            if not self.waiting:
                self.idle_polls += 1
                self.on_idle()
            return STATUS_TX_EMPTY | STATUS_RX_EMPTY
        if offset == FIFO:
            self.idle_polls = 0
            return self.fifo.popleft() if self.fifo else 0
        return self.registers.get(offset, 0)

    def write(self, offset, value):
        if offset == FIFO:
            self.idle_polls = 0
            if self.registers.get(CONTROL, 0) & CONTROL_MASK == CONTROL_ENABLE:
                self.sent.append(value & 0xFF)
        elif offset == CONTROL:
            if value & CONTROL_RESET:
                self.fifo.clear()
            self.registers[CONTROL] = value & ~CONTROL_RESET
        elif offset == INT_STATUS:
            self.registers[INT_STATUS] = self.registers.get(INT_STATUS, 0) & ~value
        else:
            self.registers[offset] = value
