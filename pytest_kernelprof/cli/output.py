"""Standard output and standard error: what happens when a reader leaves, or a disk is full."""

from __future__ import annotations

import sys
from contextlib import suppress


def complain(message: str) -> None:
    """Say on standard error, in one line, what is wrong."""
    if sys.stderr is None:  # It was closed: print() would write to standard output instead.
        return
    told = "".join(one if one.isprintable() else "?" for one in message)
    with suppress(OSError):
        print(f"kernelprof: {told}", file=sys.stderr, flush=True)  # noqa: T201 - this is the error


class Output:
    """Standard output.

    Attributes:
        closed: The reader, such as ``head``, has seen enough: nothing more is written.
        failed: It could not be written, such as on a full disk.
    """

    def __init__(self) -> None:
        """Begin to write."""
        self.closed = sys.stdout is None
        self.failed = False

    def line(self, text: str = "", end: str = "\n") -> None:
        """Write text and what ends it."""
        if self.closed:
            return
        try:
            print(text, end=end)  # noqa: T201 - this is the output
        except OSError as error:
            self._stop(error)

    def flush(self) -> None:
        """Write what is still in a buffer."""
        if self.closed:
            return
        try:
            sys.stdout.flush()
        except OSError as error:
            self._stop(error)

    def _stop(self, error: OSError) -> None:
        self.closed = True
        if not isinstance(error, BrokenPipeError):
            self.failed = True
            complain(f"standard output: {error.strerror or error}")
        # Python would complain again at exit.
        sys.stdout = None
