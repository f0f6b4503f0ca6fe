#!/usr/bin/env python3

#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""The virtual board's UART as a TCP port, for programs that talk to serial ports.

    python soc/virtual/serve.py stories.tern --port 4321
    python host/chat.py --board serial:socket://127.0.0.1:4321
"""

if __name__ == "__main__":  # Imports start at the project's root; packages come from its environment.
    import pathlib, sys; sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent.parent)
    from litetern.model.setup import environment; environment.enter("numpy", "unicorn", "migen")

import argparse
import select
import socket
import sys

from litetern.model.common import console
from litetern.soc.virtual.board import PLS, VirtualBoard

IDLE = 0.02  # Seconds between two looks at a board that waits for its host.


def serve(board, listener, stop=lambda: False):
    """Connects one client after the other to the board; returns when stop() says so. BoardError passes through."""
    client = None
    while not stop():
        if client is None:
            ready, _, _ = select.select([listener], [], [], IDLE)
            if ready:
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            continue
        ready, _, _ = select.select([client], [], [], IDLE if board.idle else 0)
        try:
            if ready:
                data = client.recv(4096)
                if not data:
                    raise ConnectionError
                board.write(data)
            data = board.read(IDLE)
            if data:
                client.sendall(data)
        except ConnectionError:
            client.close()
            client = None
    if client is not None:
        client.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("image",  nargs="?",              help="Image that the board's boot script loads; without one it waits for an upload.")
    parser.add_argument("--port", type=int, default=4321, help="TCP port on this machine.")
    parser.add_argument("--pl",   default="rtl",          help=f"What runs the lists: {', '.join(PLS)}.")
    args = parser.parse_args()
    with VirtualBoard(args.image, pl=args.pl) as board, socket.create_server(("127.0.0.1", args.port)) as listener:
        print(f"UART at socket://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        serve(board, listener)


if __name__ == "__main__":
    console.run(main)
