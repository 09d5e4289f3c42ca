"""What others can extend: the hooks of the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pluggy import HookspecMarker

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from .events import Event
    from .hints import Hint
    from .names import KernelName
    from .profile import Profile

hookspec = HookspecMarker("pytest")


@hookspec(firstresult=True)
def pytest_kernelprof_decode_kernel(name: str) -> KernelName | None:
    """Say what the name of a kernel means, ahead of the built-in rules; the first result wins.

    Args:
        name: The kernel's name; a mangled one is demangled.

    Returns:
        What the name says, or ``None`` for a name that this hook does not know. Fields that are
        left out are unknown; anything else than a `KernelName` is refused when the name is decoded.
    """


@hookspec
def pytest_kernelprof_profile(profile: Profile, request: pytest.FixtureRequest) -> None:
    """See a profile before its test does: to judge it by rules of the house, or to write its numbers down.

    Called once for every profile that ``profiled`` and its wider twins make, live or replayed, ahead
    of a budget. What it raises is raised in the test: an ``AssertionError`` fails it.

    Args:
        profile: The profile.
        request: The request of the fixture that made it; ``request.node`` is the test, the module or the session.
    """


@hookspec
def pytest_kernelprof_hints(event: Event, profile: Profile) -> Hint | Sequence[Hint] | None:
    """Say what is known to cause an event that a failure is about; added to the built-in hints.

    Args:
        event: A kernel, a copy, a Memset, a call or an op.
        profile: The profile that it is from.

    Returns:
        A `Hint`, several, or ``None``. A hook that raises is named in the message and changes no verdict.
    """
