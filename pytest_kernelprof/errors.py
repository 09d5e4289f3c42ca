"""What can go wrong, as types.

A failed check is a plain ``AssertionError`` and has no class here.
"""

from __future__ import annotations


class KernelprofError(Exception):
    """Base of every error that this package raises on purpose."""


class NotMeasured(KernelprofError):  # noqa: N818 - the word of the verdict
    """A value was read, or a check was asked for, that the trace cannot answer.

    Deliberately no ``AssertionError``: neither ``xfail(raises=AssertionError)`` nor
    ``pytest.raises(AssertionError)`` may take it for a caught regression.
    """


class TraceError(KernelprofError):
    """A trace file cannot be read; the message says what is wrong and where."""


class CaptureError(KernelprofError):
    """A function could not be profiled."""


class ReplayError(KernelprofError):
    """A recording is missing, or must not be replayed; the message gives reason and command."""


class MisuseError(KernelprofError, ValueError):
    """An argument breaks a rule; the message gives the accepted form."""


class SelectorError(MisuseError, LookupError):
    """A selector names something that does not occur in the profile at all."""
