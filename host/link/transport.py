#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Ways to a board: its serial port, and the virtual board."""

import socket

import serial

BAUD   = 115200
BOARDS = "virtual, serial:DEVICE (serial:/dev/ttyUSB1) or serial:URL (serial:socket://localhost:1234)"


def _reason(error):
    """What the system says: pyserial's own text wraps it and names the port once more."""
    return getattr(error.__context__, "strerror", None) or getattr(error, "strerror", None) or str(error)


class SerialTransport:
    """A serial port, or whatever pyserial takes as a URL."""
    foreign = True  # Any device may be at its end, and another one later.

    def __init__(self, port, baud=BAUD):
        try:
            self.serial = serial.serial_for_url(port, baudrate=baud, timeout=0, write_timeout=10)
        except (serial.SerialException, ValueError, OSError) as error:
            raise ValueError(f"serial port {port}: {_reason(error)}") from None
        line = getattr(self.serial, "_socket", None)  # Of a socket:// URL. Small frames must not wait for company.
        if line is not None:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def write(self, data):
        try:
            self.serial.write(data)
        except (serial.SerialException, OSError) as error:
            raise ConnectionError(f"serial port: {error}") from None

    def read(self, timeout):
        """What has come; waits up to `timeout` seconds for a first byte."""
        try:
            self.serial.timeout = timeout
            data = self.serial.read(1)
            if data:
                self.serial.timeout = 0
                data += self.serial.read(4096)
            return data
        except (serial.SerialException, OSError) as error:
            raise ConnectionError(f"serial port: {error}") from None

    def close(self):
        self.serial.close()


def open_transport(name, pl="rtl", image=None, **options):
    """Transport of a board by name; ValueError names the boards there are.

    pl, image, options : of a virtual board (`litetern.soc.virtual.board.VirtualBoard`); its boot script loads the image.
    """
    kind, _, rest = name.partition(":")
    if name == "virtual":
        from litetern.soc.virtual.board import VirtualBoard
        return VirtualBoard(image=image, pl=pl, **options)
    if kind == "serial" and rest:
        return SerialTransport(rest)
    raise ValueError(f"board {name!r}: must be {BOARDS}")
