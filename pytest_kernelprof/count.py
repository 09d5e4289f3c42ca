"""`Count`: a number of events that explains itself when a comparison fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Count(int):
    """A number of events. A failing ``assert profile.kernel_count == 5`` shows the events.

    It is an ``int``: its repr is the number, and arithmetic gives plain ints. Where
    ``steps_may_differ`` let the steps differ, a comparison must come out the same for every step;
    otherwise it raises.
    """

    values: tuple[int, ...]
    explain: Callable[[str], str]

    def __new__(cls, values: Sequence[int], explain: Callable[[str], str]) -> Count:
        """Make a count of *values*, one a step; *explain* gives the failure text."""
        self = super().__new__(cls, values[0])
        self.values = tuple(values)
        self.explain = explain
        return self

    def _every(self, operation: Callable[[int], Any], words: str) -> Any:
        """Return the result of *operation*, which must be the same for the count of every step."""
        __tracebackhide__ = True
        results = [operation(value) for value in dict.fromkeys(self.values)]
        if any(result != results[0] for result in results):
            raise AssertionError(self.explain(f"every step {words}"))
        return results[0]

    def __eq__(self, other: object) -> Any:
        __tracebackhide__ = True
        return self._every(lambda value: value == other, f"to equal {other}")

    def __ne__(self, other: object) -> Any:
        __tracebackhide__ = True
        return self._every(lambda value: value != other, f"not to equal {other}")

    def __lt__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._every(lambda value: value < other, f"to be below {other}")

    def __le__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._every(lambda value: value <= other, f"to be at most {other}")

    def __gt__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._every(lambda value: value > other, f"to be above {other}")

    def __ge__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._every(lambda value: value >= other, f"to be at least {other}")

    def __bool__(self) -> bool:
        __tracebackhide__ = True
        return bool(self._every(bool, "to be zero, or none"))

    def _single(self) -> int:
        """Return the number to calculate with: the steps must have the same."""
        __tracebackhide__ = True
        self._every(lambda value: value, "to be alike, to calculate with")
        return self.values[0]

    def __int__(self) -> int:
        __tracebackhide__ = True
        return self._single()

    __index__ = __trunc__ = __int__

    def __float__(self) -> float:
        __tracebackhide__ = True
        return float(self._single())

    def __add__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._single() + other

    def __radd__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return other + self._single()

    def __sub__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._single() - other

    def __rsub__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return other - self._single()

    def __mul__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._single() * other

    def __rmul__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return other * self._single()

    def __truediv__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._single() / other

    def __rtruediv__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return other / self._single()

    def __floordiv__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._single() // other

    def __mod__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._single() % other

    __hash__ = int.__hash__

    def __getnewargs__(self) -> Any:
        return (self.values, _no_explanation)


def _no_explanation(expected: str) -> str:
    return f"expected {expected}"
