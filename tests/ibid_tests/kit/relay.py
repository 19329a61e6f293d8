"""A TCP relay: a guest on a tap device reaches a server that listens on loopback only, and a way can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading


class Relay:
    """Listens on `address` (any free port) and forwards every connection to a loopback port."""

    def __init__(self, address: str, to_port: int):
        self.to_port = to_port
        self.listener = socket.create_server((address, 0))
        self.port = self.listener.getsockname()[1]
        self.ends: list[socket.socket] = []
        self.is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                try:
                    far = None if self.is_cut else socket.create_connection(("127.0.0.1", self.to_port))
                except OSError:
                    far = None
                if not far:
                    near.close()
                    continue
                self.ends += [near, far]
                for s in (near, far):
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=ends, daemon=True).start()

    def cut(self) -> None:
        """Ends all connections, and new ones at once, until `join`."""
        self.is_cut = True
        while self.ends:
            with contextlib.suppress(OSError):
                self.ends.pop().shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        self.is_cut = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # shutdown() wakes the thread that waits in accept(); close() alone does not.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 18):
            sink.sendall(data)
    for s in (source, sink):
        with contextlib.suppress(OSError):
            s.shutdown(socket.SHUT_RDWR)
