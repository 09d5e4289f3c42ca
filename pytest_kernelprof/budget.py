"""Budgets: limits on what a step does, written down once for many traces or tests.

Every limit is an assertion of `Profile`, so that a recorded trace is judged as a live test is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .asking import asked_by
from .checks import Outcome
from .documents import path_of, problem
from .errors import BudgetError, NotMeasured, SelectorError
from .names import glob
from .units import counted

if TYPE_CHECKING:
    from .profile import Profile

_SCHEMA = "budget-1"


class Rule(NamedTuple):
    """One thing that may be limited.

    Attributes:
        key: Its name in a budget; with ``--`` and hyphens its flag.
        value: What its value is: ``count``, ``bytes``, ``time``, ``share``, ``flag``, ``dtypes``, ``patterns`` or
            ``backend``.
        judge: The assertion: is given the profile, the value, and how events are chosen.
        of_kernels: It can be asked of chosen kernels.
    """

    key: str
    value: str
    judge: Callable[[Profile, Any, Mapping[str, Any]], None]
    of_kernels: bool = False


RULES = (
    Rule("kernels", "count", lambda p, n, c: p.assert_kernel_count(n, **c), True),
    Rule("max_kernels", "count", lambda p, n, c: p.assert_kernel_count(at_most=n, **c), True),
    Rule("min_kernels", "count", lambda p, n, c: p.assert_kernel_count(at_least=n, **c), True),
    Rule("max_launches", "count", lambda p, n, c: p.assert_launch_count(at_most=n, **c)),
    Rule("no_memcpy", "flag", lambda p, _, c: p.assert_no_memcpy(**c)),
    Rule("max_memcpys", "count", lambda p, n, c: p.assert_memcpy_count(at_most=n, **c)),
    Rule("max_memcpy_bytes", "bytes", lambda p, n, c: p.assert_memcpy_bytes(at_most=n, **c)),
    Rule("no_copy", "flag", lambda p, _, c: p.assert_no_copy(**c)),
    Rule("no_memset", "flag", lambda p, _, c: p.assert_no_memset(**c)),
    Rule("no_own_memset", "flag", lambda p, _, c: p.assert_no_memset(ignore_library=True, **c)),
    Rule("max_memsets", "count", lambda p, n, c: p.assert_memset_count(at_most=n, **c)),
    Rule("no_host_sync", "flag", lambda p, _, c: p.assert_no_host_sync(**c)),
    Rule("no_host_sync_but", "patterns", lambda p, n, c: p.assert_no_host_sync(allow=n, **c)),
    Rule("max_host_syncs", "count", lambda p, n, c: p.assert_host_sync_count(at_most=n, **c)),
    Rule("tensor_cores", "flag", lambda p, _, c: p.assert_tensor_cores(**c), True),
    Rule("min_tensor_cores", "share", lambda p, n, c: p.assert_tensor_cores(at_least=n, **c), True),
    Rule("dtypes", "dtypes", lambda p, n, c: p.assert_dtypes(set(n), **c), True),
    Rule("sdpa_backend", "backend", lambda p, n, c: p.assert_sdpa_backend(n, **c)),
    Rule("graphed", "flag", lambda p, _, c: p.assert_graphed(**c), True),
    Rule("min_occupancy", "share", lambda p, n, c: p.assert_occupancy(at_least=n, **c), True),
    Rule("max_gpu_time", "time", lambda p, n, c: p.assert_gpu_time(at_most=n, **c)),
    Rule("max_cpu_time", "time", lambda p, n, _: p.assert_cpu_time(at_most=n)),
    Rule("max_peak_memory", "bytes", lambda p, n, _: p.assert_peak_memory(at_most=n)),
    Rule("max_allocated_memory", "bytes", lambda p, n, _: p.assert_allocated_memory(at_most=n)),
    Rule("no_device_allocation", "flag", lambda p, *_: p.assert_no_device_allocation()),
)
"""What a budget may limit, in the order in which it is judged."""

_BY_KEY = {rule.key: rule for rule in RULES}
_OP_RULES: dict[str, Callable[[Profile, str, int], None]] = {
    "calls": lambda p, name, n: p.assert_op_count(name, n),
    "max_calls": lambda p, name, n: p.assert_op_count(name, at_most=n),
    "min_calls": lambda p, name, n: p.assert_op_count(name, at_least=n),
}
_SCOPES = ("region", "step", "kernel", "op")


class BudgetLine(NamedTuple):
    """One limit of a budget.

    Attributes:
        key: What is limited.
        value: How.
        scope: ``region``, ``step``, ``kernel`` or ``op``; ``None`` for the whole step.
        pattern: Which of them, as a glob.
    """

    key: str
    value: Any
    scope: str | None = None
    pattern: str = "*"

    def __str__(self) -> str:
        value = str(self.value).lower() if isinstance(self.value, bool) else repr(self.value)
        where = f"{self.scope} {self.pattern!r}: " if self.scope else ""
        return f"{where}{self.key} = {value}"

    def judge(self, profile: Profile) -> None:
        """Assert it of a profile.

        Raises:
            AssertionError: It is broken.
            KernelprofError: It cannot be judged.
        """
        __tracebackhide__ = True
        if self.scope == "op":
            _OP_RULES[self.key](profile, self.pattern, self.value)
            return
        if self.scope == "region":
            profile = profile.region(self.pattern)
        elif self.scope == "step":
            profile = profile.only_steps(self.pattern)
        chosen = {"named": self.pattern} if self.scope == "kernel" else {}
        _BY_KEY[self.key].judge(profile, self.value, chosen)


class Budget(NamedTuple):
    """Limits, and where they come from.

    Attributes:
        source: The file, or the command line.
        lines: The limits.
    """

    source: str
    lines: tuple[BudgetLine, ...]


_ALSO_ON_CPU = ("max_cpu_time",)


def keep_to(
    budget: Budget, profile: Profile, *, on_cpu: bool, found_scope: Callable[[str, bool], None] = lambda *_: None
) -> None:
    """Judge a profile by every limit that has to do with it.

    Limits for regions and steps that it does not have are left out: a budget is for many tests.

    Args:
        budget: The limits.
        profile: The profile.
        on_cpu: Its test is for the CPU: only operators and CPU time are judged.
        found_scope: Is told of each region and step that is limited, and whether this profile has it.

    Raises:
        AssertionError: Limits are broken.
        NotMeasured: None is, and some could not be judged.
    """
    __tracebackhide__ = True
    broken, unjudged, told = 0, 0, []
    for line in budget.lines:
        if line.scope in ("region", "step"):
            there = _has_scope(profile, line)
            found_scope(f"{budget.source}: {line.scope} {line.pattern!r}", there)
            if not there:
                continue
        if on_cpu and line.scope != "op" and line.key not in _ALSO_ON_CPU:
            continue
        try:
            with asked_by(f"{budget.source}: {line}"):
                found = profile.verdicts(line.judge)
        except NotMeasured as error:
            unjudged += 1
            told.append(f"{line}\n\n{error}")
            continue
        for verdict, message in found:
            broken += verdict.outcome is Outcome.FAIL
            unjudged += verdict.outcome not in (Outcome.FAIL, Outcome.PASS)
            told += [f"{line}\n\n{message}"] if message else []
    if told:
        headline = f"{counted(broken or unjudged, 'limit')} of {budget.source} {'broken' if broken else 'not measured'}"
        raise (AssertionError if broken else NotMeasured)("\n\n".join([headline, *told]))


def _has_scope(profile: Profile, line: BudgetLine) -> bool:
    """Return whether a profile has the region or the step that a limit is for."""
    if line.scope == "region":
        return any(glob(line.pattern, name) for name in profile.region_names)
    try:
        profile.only_steps(line.pattern)
    except SelectorError:
        return False
    return True


def budget_of(path: Path, shown: str | None = None) -> Budget:
    """Read a budget.

    Args:
        path: The file, TOML.
        shown: How a message names it.

    Raises:
        BudgetError: It cannot be read, or holds something that is no limit; says where, and what is accepted.
    """
    __tracebackhide__ = True
    shown = shown or str(path)
    try:
        document = _toml().loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise BudgetError(f"{shown}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BudgetError(f"{shown}: not UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise BudgetError(f"{shown}: no TOML: {error}") from None
    wrong = problem(document, _SCHEMA)
    if wrong is not None:
        raise BudgetError(f"{shown}: {wrong[0]}: {wrong[1]}")
    lines = tuple(_lines(document))
    if not lines:
        raise BudgetError(f"{shown}: $: limits nothing; accepted: such as max_kernels = 5")
    check_values(lines, shown)
    return Budget(shown, lines)


def _toml() -> Any:
    try:
        import tomllib
    except ImportError:  # Python 3.10; pytest brings it there.
        import tomli as tomllib
    return tomllib


def _lines(document: Mapping[str, Any]) -> Iterator[BudgetLine]:
    order = {rule.key: number for number, rule in enumerate(RULES)}
    for key in sorted((key for key in document if key in _BY_KEY), key=order.__getitem__):
        yield BudgetLine(key, document[key])
    for scope in _SCOPES:
        for pattern, limits in document.get(scope, {}).items():
            for key in sorted(limits, key=lambda key: order.get(key, 0)):
                yield BudgetLine(key, limits[key], scope, pattern)


def check_values(lines: Sequence[BudgetLine], shown: str) -> None:
    """Refuse values that the schema cannot tell from good ones, such as unknown units and data types."""
    from .limits import BYTES, TIME
    from .names import DTYPES

    for line in lines:
        kind = _BY_KEY[line.key].value if line.key in _BY_KEY else "count"
        at = path_of([*([line.scope, line.pattern] if line.scope else []), line.key])
        if kind == "count" and type(line.value) is not int:
            raise BudgetError(f"{shown}: {at}: {line.value!r} is not accepted; accepted: a whole number")
        if line.key.startswith("min_") and not line.value > 0:  # Also what is no number.
            raise BudgetError(f"{shown}: {at}: {line.value!r} always passes; accepted: above 0")
        try:
            if kind in ("bytes", "time"):
                (BYTES if kind == "bytes" else TIME).parse(line.value, f"{line.key} = {line.value!r}")
        except ValueError as error:
            raise BudgetError(f"{shown}: {at}: {error}") from None
        for name in line.value if kind == "dtypes" else ():
            if name not in DTYPES:
                raise BudgetError(f"{shown}: {at}: {name!r} is no data type; accepted: {', '.join(DTYPES)}")
