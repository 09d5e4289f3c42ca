"""The check of theoretical occupancy."""

from __future__ import annotations

from collections.abc import Sequence

from .checks import PASSED, Outcome, Reading, Verdict, decided, failed, not_measured
from .events import Kernel
from .limits import Limit
from .names import brief, shorten
from .units import counted, format_share

_NAME_WIDTH = 56


def occupancy(reading: Reading, allowed: Limit) -> Verdict:
    """Check the theoretical occupancy of every chosen kernel of each step; none at all is a failure."""
    return decided([_of_step(reading, place, allowed) for place in range(len(reading.steps))], reading)


def _of_step(reading: Reading, place: int, allowed: Limit) -> Verdict:
    kernels: Sequence[Kernel] = reading.chosen[place].seen
    expected, where = f"expected {allowed.words()}{reading.suffix()}", reading.where(place)
    fractions = [(kernel, kernel.theoretical_occupancy) for kernel in kernels]
    wrong = {kernel: one for kernel, one in fractions if one is not None and allowed.rules_out(one, exact=True)}
    if wrong:
        ends = dict.fromkeys(format_share(end(wrong.values())) for end in (min, max))
        told = f"{len(wrong)} of {counted(len(kernels), 'kernel')} {where} with a theoretical occupancy of"
        return failed(reading, f"{told} {' to '.join(ends)}, {expected}", list(wrong), "occupancy")
    if reading.chosen[place].why_not_measured:
        return not_measured(reading, expected)
    if not kernels:
        headline = f"no kernel {where}: none found, expected an occupancy of {allowed.words()}{reading.suffix()}"
        return Verdict(Outcome.FAIL, headline, reading.whole[place].seen)
    untold = [kernel for kernel, one in fractions if one is None]
    if untold:
        first = f"{shorten(brief(untold[0].name), _NAME_WIDTH)}: {untold[0].why_no_occupancy}"
        headline = f"occupancy of {counted(len(untold), 'kernel')} not measured ({first}); {expected}"
        return Verdict(Outcome.NOT_MEASURED, headline, untold, view="occupancy")
    return PASSED
