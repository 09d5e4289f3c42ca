"""What can go wrong, as types.

A failed check is a plain ``AssertionError`` and has no class here.
"""

from __future__ import annotations

from collections.abc import Iterable


class KernelprofError(Exception):
    """Base of every error that this package raises on purpose."""


class NotMeasured(KernelprofError):  # noqa: N818 - the word of the verdict
    """A value was read, or a check was asked for, that the trace cannot answer.

    Deliberately no ``AssertionError``: neither ``xfail(raises=AssertionError)`` nor
    ``pytest.raises(AssertionError)`` may take it for a caught regression.
    """


class TooNoisy(NotMeasured):
    """Times were measured, and their spread or a shared GPU forbids a verdict on them."""


class TraceError(KernelprofError):
    """A trace file cannot be read; the message says what is wrong and where."""


class CaptureError(KernelprofError):
    """A function could not be profiled."""


class ReplayError(KernelprofError):
    """A recording is missing, or must not be replayed; the message gives reason and command."""


class BudgetError(KernelprofError, ValueError):
    """A budget file cannot be read, or holds what is no limit; the message gives the place and what is accepted."""


class LedgerError(KernelprofError):
    """A ledger has no entry for what was measured, or cannot be read; the message gives the cure."""


class MisuseError(KernelprofError, ValueError):
    """An argument breaks a rule; the message gives the accepted form."""


class SelectorError(MisuseError, LookupError):
    """A selector names something that does not occur in the profile at all."""


def instead(wrong: object, accepted: Iterable[str], form: str = "{!r}") -> str:
    """Return how a message on a wrong word ends: ``did you mean 'gemm'?``, or all that is accepted.

    Args:
        wrong: What the user wrote.
        accepted: The words that are accepted.
        form: How the closest one is written.
    """
    from difflib import get_close_matches

    words = list(accepted)
    close = get_close_matches(str(wrong), words, n=1)
    return f"did you mean {form.format(close[0])}?" if close else f"accepted: {', '.join(words)}"
