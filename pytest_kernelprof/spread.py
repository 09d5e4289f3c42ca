"""Medians of noisy numbers, and how far each can be trusted."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from math import comb
from typing import NamedTuple

_ONE_IN = 10_000
"""The true median lies beyond an end of an interval in at most one of so many cases, each."""

FEWEST = _ONE_IN.bit_length()
"""So many values can promise that: the true median is below them all in one of ``2 ** FEWEST`` cases."""

_WIDENED = {2: 10, 3: 4, 4: 2}
"""By how many times its length the range of so few values is widened; 1 for more."""


class Spread(NamedTuple):
    """The median of some measurements, and where the true one lies.

    Attributes:
        median: Of what was measured.
        low: Lower end of the interval for the true median.
        high: Upper end of it.
        least: The smallest measurement.
        most: The largest.
        number: How many there are.
    """

    median: float
    low: float
    high: float
    least: float
    most: float
    number: int


def spread_of(values: Sequence[float], tick: float = 0) -> Spread | None:
    """Return the median of *values* with its interval; ``None`` for fewer than two, which show no spread.

    The interval holds the true median in at least 9,998 of 10,000 cases, whatever the distribution:
    its ends are order statistics, as in the sign test. Fewer than `FEWEST` values cannot promise
    that much; there the range of the values is widened on both sides by a multiple of its length,
    and by no less than 1% of the median, since a few values are equal by chance.

    Args:
        values: The measurements.
        tick: The smallest difference that the clock shows; no interval is surer than that.
    """
    ordered = sorted(values)
    number = len(ordered)
    if number < 2:
        return None
    least, most = ordered[0], ordered[-1]
    median, cut = statistics.median(ordered), _cut(number)
    if cut is None:
        margin = tick + _WIDENED.get(number, 1) * max(most - least, abs(median) / 100)
        return Spread(median, least - margin, most + margin, least, most, number)
    return Spread(median, ordered[cut] - tick, ordered[-1 - cut] + tick, least, most, number)


def _cut(number: int) -> int | None:
    """Return how many values at either end the interval may leave out; ``None`` if even none is too many.

    That the true median is below all but the *k* smallest of *n* values is as likely as at most *k*
    heads in *n* tosses.
    """
    cut, ways = -1, 1
    while ways * _ONE_IN <= 2**number:
        cut += 1
        ways += comb(number, cut + 1)
    return cut if cut >= 0 else None
