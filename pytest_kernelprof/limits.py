"""Limits: what the keywords of an assertion ask for, and whether a number is within."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from .errors import MisuseError
from .units import format_bytes, format_ns, format_share, parse_bytes, parse_ns, whole_number


class Quantity(NamedTuple):
    """A kind of number that an assertion limits.

    Attributes:
        parse: Returns the number that the user wrote, or raises `MisuseError`; is given the value, and
            the words for it in the error.
        show: Returns a number as text.
        slack: By how much a number may miss a limit, since people write what profilers rounded.
        most: The largest number that there can be.
        exact: Whether ``exactly`` makes sense.
        unit: Of the number itself, where `show` rounds it.
    """

    parse: Callable[[Any, str], float]
    show: Callable[[Any], str] = str
    slack: float = 0
    most: float | None = None
    exact: bool = True
    unit: str = ""


def _parse_count(value: Any, where: str) -> int:
    number = whole_number(value)
    if number is None:
        raise MisuseError(f"{where} is no count; accepted: a whole number of at least 0")
    return number


def _parse_fraction(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise MisuseError(f"{where} is no fraction; accepted: a number from 0 to 1, such as 0.125 for 12.5%")
    return float(value)


COUNT = Quantity(_parse_count)
BYTES = Quantity(parse_bytes, format_bytes, unit=" B")
TIME = Quantity(parse_ns, format_ns, exact=False, unit=" ns")
FRACTION = Quantity(_parse_fraction, format_share, slack=0.0005, most=1)


@dataclass(frozen=True, slots=True)
class Limit:
    """An inclusive range of numbers; `high` is ``None`` where there is no upper end."""

    low: float
    high: float | None
    quantity: Quantity = COUNT

    def words(self) -> str:
        """Return the limit as it reads after ``expected``."""
        show = self.quantity.show
        if self.high is None:
            return f"at least {show(self.low)}"
        if self.low == self.high:
            return "none" if self.low == 0 else show(self.low)
        if self.low == 0:
            return f"at most {show(self.high)}"
        return f"{show(self.low)} to {show(self.high)}"

    def in_full(self, number: float) -> str:
        """Return a number that misses the limit, and the limit, in full where both read alike; else nothing."""
        missed = self.high if self.high is not None and number > self.high else self.low
        quantity = self.quantity
        if not quantity.unit or number == missed or quantity.show(number) != quantity.show(missed):
            return ""
        return f" ({number}{quantity.unit} against {missed}{quantity.unit})"

    def _with_slack(self) -> tuple[float, float | None]:
        slack = self.quantity.slack
        return self.low - slack, None if self.high is None else self.high + slack

    def rules_out(self, low: float, *, exact: bool) -> bool:
        """Return whether no true number of at least *low* (exactly, if *exact*) is within."""
        least, most = self._with_slack()
        return (most is not None and low > most) or (exact and low < least)

    def holds(self, low: float, *, exact: bool) -> bool:
        """Return whether every true number of at least *low* (exactly, if *exact*) is within."""
        least, most = self._with_slack()
        return low >= least and (most is None or (exact and low <= most))


NONE, ONE, AT_LEAST_ONE = Limit(0, 0), Limit(1, 1), Limit(1, None)
"""Limits on counts that assertions set themselves."""


def limit(
    check: str,
    exactly: Any = None,
    at_most: Any = None,
    at_least: Any = None,
    between: Any = None,
    *,
    quantity: Quantity = COUNT,
) -> Limit:
    """Return the limit that an assertion's keywords ask for.

    Args:
        check: Name of the assertion, for errors.
        exactly: The only number that passes.
        at_most: The largest number that passes.
        at_least: The smallest number that passes.
        between: The smallest and the largest.
        quantity: What the numbers are.

    Raises:
        MisuseError: There is no limit, two that contradict each other, one that always passes,
            or one that is no such number.
    """
    forms = f"{'exactly=, ' if quantity.exact else ''}at_most=, at_least= or between=(low, high)"
    values = {"exactly": exactly, "at_most": at_most, "at_least": at_least, "between": between}
    given = {name: value for name, value in values.items() if value is not None}
    if not given:
        raise MisuseError(f"{check}() needs a limit; accepted: {forms}")
    if len(given) > 1 and set(given) != {"at_most", "at_least"}:
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise MisuseError(f"{check}({shown}) gives several limits; accepted: one of {forms}")
    low, high = _ends(check, given, quantity)
    if high is None and low == 0:
        raise MisuseError(f"{check}(at_least=0) always passes; accepted: {forms}")
    if high is not None and low > high:
        raise MisuseError(f"{check}: from {low} to {high} holds no number; accepted: low <= high")
    if low == 0 and high is not None and quantity.most is not None and high >= quantity.most:
        raise MisuseError(f"{check}: at most {high} always passes; accepted: less, or at_least=")
    return Limit(low, high, quantity)


def _ends(check: str, given: dict[str, Any], quantity: Quantity) -> tuple[float, float | None]:
    """Return the smallest and the largest number that pass."""

    def number(name: str, value: Any) -> float:
        return quantity.parse(value, f"{check}({name}={value!r})")

    if "exactly" in given:
        exact = number("exactly", given["exactly"])
        return exact, exact
    if "between" in given:
        between = given["between"]
        if not isinstance(between, (tuple, list)) or len(between) != 2:
            raise MisuseError(f"{check}(between={between!r}) is no pair; accepted: between=(low, high)")
        return number("between", between[0]), number("between", between[1])
    low = number("at_least", given["at_least"]) if "at_least" in given else 0
    return low, number("at_most", given["at_most"]) if "at_most" in given else None
