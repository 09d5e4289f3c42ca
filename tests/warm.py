"""A warm interpreter: processes that tests start are forked from one that has imported torch and pytest already.

`python` returns the path of a program that does what ``python`` does, for the arguments that tests give it (``-c``,
``-m`` or a file). It hands its arguments, environment, folder and streams to a server, which forks. The first process of
a test run that asks for it starts the server, the others share it, and it ends with the run.

Such a process does not show how a process starts: tests of what is imported, and when, take ``sys.executable``.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import importlib.util
import json
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

_FOLDER = "KERNELPROF_TESTS_WARM"
"""Variable that names the folder which the processes of a test run share."""
_SOCKET = "socket"
_LONGEST_CALL = 1 << 20
# Not among them: plugins of pytest, which rewrites their assertions while they are imported.
_WARM = ("torch", "torch._dynamo", "torch.profiler", "pytest", "execnet", "jsonschema", "msgspec", "tabulate")


def share() -> Callable[[], None]:
    """Let all processes of a test run share one server; return what ends it."""
    folder = tempfile.TemporaryDirectory(prefix="warm-", ignore_cleanup_errors=True)
    os.environ[_FOLDER] = folder.name
    return folder.cleanup


@functools.cache
def python() -> str:
    """Return a ``python`` that starts quickly; this one where that is not safe.

    Only Linux can fork what has imported torch, and a fork cannot use the GPUs that its parent has looked for.
    """
    if sys.platform != "linux" or any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd")):
        return sys.executable
    folder = Path(os.environ[_FOLDER])
    program = folder / "python"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _start(folder)
            client = shlex.join([sys.executable, "-IS", str(Path(__file__).with_name("warm_client.py"))])
            program.write_text(f'#!/bin/sh\nexec {client} {folder / _SOCKET} "$@"\n')
            program.chmod(0o755)
    return str(program)


def _start(folder: Path) -> None:
    """Start the server, and wait until it listens."""
    # What its processes import is compiled once, however this run treats that.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, __file__, str(folder)]
    subprocess.run(command, check=True, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


# The server


class _Server:
    """Forks a process for each call, and tells the caller how it ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(folder / _SOCKET))
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._ended, wake = socket.socketpair()
        self._ended.setblocking(False)
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._wake = wake
        self._selector.register(self._ended, selectors.EVENT_READ)

    def serve(self) -> list[str] | None:
        """Serve until the folder is gone; in a process that was forked, return what it is to run."""
        while self._folder.exists():
            for key, _ in self._selector.select(timeout=2):
                if key.fileobj is self._listener:
                    arguments = self._accept()
                    if arguments is not None:
                        return arguments
                elif key.fileobj is self._ended:
                    self._reap()
                else:
                    self._abandon(key.data)
        for pid in self._calls:
            os.kill(pid, signal.SIGKILL)
        return None

    def _accept(self) -> list[str] | None:
        call, _ = self._listener.accept()
        message, streams, _, _ = socket.recv_fds(call, _LONGEST_CALL, 3)
        pid = os.fork()
        if pid == 0:
            self._close()
            call.close()
            return _become(json.loads(message), streams)
        for stream in streams:
            os.close(stream)
        self._calls[pid] = call
        self._selector.register(call, selectors.EVENT_READ, pid)
        return None

    def _close(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for one in (self._listener, self._ended, self._wake, *self._calls.values()):
            one.close()

    def _reap(self) -> None:
        self._ended.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                call = self._calls.pop(ended[0])
                with contextlib.suppress(KeyError):
                    self._selector.unregister(call)
                with call, contextlib.suppress(OSError):
                    call.sendall(str(os.waitstatus_to_exitcode(ended[1])).encode())

    def _abandon(self, pid: int) -> None:
        """End a process whose caller is gone."""
        self._selector.unregister(self._calls[pid])
        os.kill(pid, signal.SIGKILL)


def _become(call: dict[str, Any], streams: list[int]) -> list[str]:
    """Take over what the caller of this process has: streams, environment, folder."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    os.setsid()
    os.environ.clear()
    os.environ.update(call["environment"])
    os.chdir(call["folder"])
    sys.path[0:1] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.executable = call["program"]
    arguments: list[str] = call["arguments"]
    return arguments


def _run(arguments: list[str]) -> object:
    """Do what ``python`` does with *arguments*; return what `sys.exit` was given."""
    while arguments[0] in ("-u", "-B", "-I"):
        arguments = arguments[1:]
    try:
        if arguments[0] == "-c":
            sys.argv = ["-c", *arguments[2:]]
            sys.path.insert(0, "")
            exec(compile(arguments[1], "<string>", "exec"), sys.modules["__main__"].__dict__)
        elif arguments[0] == "-m":
            sys.argv = arguments[1:]
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as error:
        return error.code
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        return 1
    return 0


def _end(code: object) -> NoReturn:
    """End this process as the interpreter does, but for taking down torch."""
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF if isinstance(code, int) else 1 if code else 0)


def main() -> None:
    """Import what is slow, then serve."""
    for module in _WARM:
        if importlib.util.find_spec(module.partition(".")[0]) is not None:
            importlib.import_module(module)
    gc.collect()
    gc.freeze()
    server = _Server(Path(sys.argv[1]))
    if os.fork():
        os._exit(0)  # It listens: who started it need not wait any longer.
    os.setsid()
    arguments = server.serve()
    if arguments is not None:
        _end(_run(arguments))


if __name__ == "__main__":
    main()
