"""The check of theoretical occupancy."""

from __future__ import annotations

from collections.abc import Sequence

from .checks import PASSED, Outcome, Reading, Verdict, agreement, disagreement, first_that_decides, not_measured
from .events import Kernel
from .limits import Limit
from .names import brief, shorten
from .units import counted, format_share

_NAME_WIDTH = 56


def occupancy(reading: Reading, allowed: Limit) -> Verdict:
    """Check the theoretical occupancy of every chosen kernel of each step; none at all is a failure."""
    decided = first_that_decides([_of_step(reading, place, allowed) for place in range(len(reading.steps))])
    return decided if decided.outcome is not Outcome.PASS else agreement(reading)


def _of_step(reading: Reading, place: int, allowed: Limit) -> Verdict:
    kernels: Sequence[Kernel] = reading.chosen[place].seen
    expected = f"expected {allowed.words()}{reading.suffix()}"
    where = f"in {reading.steps[place]}" if reading.may_differ and len(reading.steps) > 1 else "a step"
    known = [(kernel, fraction) for kernel in kernels if (fraction := kernel.theoretical_occupancy) is not None]
    wrong = [(kernel, fraction) for kernel, fraction in known if allowed.rules_out(fraction, exact=True)]
    if wrong:
        fractions = sorted(fraction for _, fraction in wrong)
        ends = dict.fromkeys(map(format_share, (fractions[0], fractions[-1])))
        headline = (
            f"{len(wrong)} of {counted(len(kernels), 'kernel')} {where} with a theoretical occupancy of "
            f"{' to '.join(ends)}, {expected}"
        )
        changes = () if reading.may_differ else disagreement(reading)
        return Verdict(Outcome.FAIL, headline, [kernel for kernel, _ in wrong], changes, view="occupancy")
    if reading.chosen[place].why_not_measured:
        return not_measured(reading, expected)
    if not kernels:
        headline = f"no kernel {where}: none found, expected an occupancy of {allowed.words()}{reading.suffix()}"
        return Verdict(Outcome.FAIL, headline, reading.whole[place].seen)
    untold = [kernel for kernel in kernels if kernel.theoretical_occupancy is None]
    if untold:
        first = f"{shorten(brief(untold[0].name), _NAME_WIDTH)}: {untold[0].why_no_occupancy}"
        headline = f"occupancy of {counted(len(untold), 'kernel')} not measured ({first}); {expected}"
        return Verdict(Outcome.NOT_MEASURED, headline, untold, view="occupancy")
    return PASSED
