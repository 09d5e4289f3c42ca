"""Has a process forked by the server of `warm`, and ends as it ends: ``warm_client.py SOCKET ARGUMENT...``."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

SOCKET, *ARGUMENTS = sys.argv[1:]
CALL = {
    "arguments": ARGUMENTS,
    "environment": dict(os.environ),
    "folder": os.getcwd(),  # noqa: PTH109 - pathlib is slow to import
    "program": os.path.join(os.path.dirname(SOCKET), "python"),  # noqa: PTH118, PTH120
}

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect(SOCKET)
    socket.send_fds(server, [json.dumps(CALL).encode()], [0, 1, 2])
    STATUS = int(server.recv(16) or 1)
if STATUS < 0:
    signal.signal(-STATUS, signal.SIG_DFL)
    os.kill(os.getpid(), -STATUS)
sys.exit(STATUS)
