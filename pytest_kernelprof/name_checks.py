"""Checks that read what kernel names say: roles, data types, tensor cores.

A kernel whose name says nothing may be anything: it makes a check *not measured*, unless what is
known already decides it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from .checks import (
    PASSED,
    GuessRow,
    Outcome,
    Reading,
    Verdict,
    decided,
    disagreement,
    failed,
    not_measured,
)
from .errors import MisuseError, instead
from .events import Kernel
from .eventset import teach_hint
from .hints import MATH_SDPA_OP, SDPA_BACKEND
from .limits import NONE, Limit, limit
from .matrix import matrix_time, percent
from .names import COPY_ROLES, DTYPES, ROLES
from .units import counted

SDPA_BACKENDS = ("flash", "efficient", "cudnn", "math", "external")
# Which backend the dispatcher called, where the kernel's name alone does not tell it (AOTriton serves two).
_BACKEND_OPS = {
    "flash": ("aten::_scaled_dot_product_flash_attention", "aten::_flash_attention"),
    "efficient": ("aten::_scaled_dot_product_efficient_attention", "aten::_efficient_attention"),
    "cudnn": ("aten::_scaled_dot_product_cudnn_attention", "aten::_cudnn_attention"),
}
OTHER_CLASSES = {"memcpy": "memcpys", "memset": "memsets", "host_sync": "host_syncs"}
"""What a guess may name besides roles, and the attribute of a step that holds it."""


def _unknown(kernels: Sequence[Kernel]) -> list[Kernel]:
    return [kernel for kernel in kernels if not kernel.decoded.recognized]


def _matrix(kernels: Sequence[Kernel]) -> list[Kernel]:
    return [kernel for kernel in kernels if kernel.decoded.is_matrix]


def _unsure(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels that may be matrix kernels without tensor cores."""
    silent = [kernel for kernel in _matrix(kernels) if kernel.decoded.tensor_cores == "unknown"]
    return [*silent, *_unknown(kernels)]


def _failed(reading: Reading, headline: str, evidence: Sequence[Kernel]) -> Verdict:
    return failed(reading, headline, evidence, "names")


def _untold(what: str, kernels: Sequence[Kernel], expected: str) -> Verdict:
    told = f"{what} not measured: {teach_hint(kernels)}; {expected}"
    return Verdict(Outcome.NOT_MEASURED, told, kernels, view="names")


def tensor_cores(reading: Reading, at_least: Any) -> Verdict:
    """Check that the matrix kernels of each step run on tensor cores.

    Args:
        reading: The kernels.
        at_least: The share of their time that must; ``None``: every one of them must.

    Raises:
        MisuseError: *at_least* is no share above 0 and up to 1.
    """
    if at_least is not None and not _is_share(at_least):
        raise MisuseError(
            f"assert_tensor_cores(at_least={at_least!r}) is no share; accepted: a number above 0 and up to 1, "
            "such as 0.9"
        )
    at_least = None if at_least is None else float(at_least)
    wanted = "all on tensor cores" if at_least is None else f"at least {percent(at_least)}"
    expected = f"expected {wanted}{reading.suffix()}"
    verdicts = [_tensor_cores_of_step(reading, place, at_least, expected) for place in range(len(reading.steps))]
    return decided(verdicts, reading)


def _is_share(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and 0 < float(value) <= 1


def _tensor_cores_of_step(reading: Reading, place: int, at_least: float | None, expected: str) -> Verdict:
    kernels: Sequence[Kernel] = reading.chosen[place].seen
    where = reading.where(place)
    matrix, unsure = _matrix(kernels), _unsure(kernels)
    without = [kernel for kernel in matrix if kernel.decoded.tensor_cores == "no"]
    if at_least is None and without:
        headline = f"{len(without)} of {counted(len(matrix), 'matrix kernel')} {where} without tensor cores, {expected}"
        return _failed(reading, headline, without)
    if reading.chosen[place].why_not_measured:
        return not_measured(reading, expected)
    if not matrix and not unsure:
        return _failed(reading, f"no matrix kernel {where}: none found, {expected}", kernels)
    if at_least is None or not matrix:
        return _untold("tensor cores", unsure, expected) if unsure else PASSED
    return _share_of_step(reading, kernels, at_least, where, expected)


def _share_of_step(reading: Reading, kernels: Sequence[Kernel], at_least: float, where: str, expected: str) -> Verdict:
    time = matrix_time(kernels)
    if time.least is None or time.most is None:
        told = "a matrix kernel has no duration in the trace" if time.undated else "the matrix kernels took no time"
        return Verdict(Outcome.NOT_MEASURED, f"tensor cores not measured: {told}; {expected}")
    if time.least >= at_least:
        return PASSED
    if time.most < at_least:
        headline = f"{percent(time.most)} of matrix time {where} on tensor cores, {expected}"
        return _failed(reading, headline, _matrix(kernels))
    return _untold("tensor cores", _unsure(kernels), expected)


def dtypes(reading: Reading, accepted: Any) -> Verdict:
    """Check that the names of the chosen kernels tell of no other data types.

    Raises:
        MisuseError: *accepted* is no set of data types.
    """
    names = _dtype_names(accepted)
    expected = f"expected only {', '.join(names)}{reading.suffix()}"
    verdicts = [_dtypes_of_step(reading, place, names, expected) for place in range(len(reading.steps))]
    return decided(verdicts, reading)


def _dtype_names(accepted: Any) -> list[str]:
    if isinstance(accepted, str) or not isinstance(accepted, Collection) or not accepted:
        raise MisuseError(f"assert_dtypes({accepted!r}) is no set of data types; accepted: such as {{'bf16'}}")
    for name in accepted:
        if name not in DTYPES:
            raise MisuseError(f"assert_dtypes: {name!r} is no data type; {instead(name, DTYPES)}")
    return sorted(accepted)


def _dtypes_of_step(reading: Reading, place: int, accepted: Sequence[str], expected: str) -> Verdict:
    events = reading.chosen[place]
    kernels: Sequence[Kernel] = events.seen
    others = [kernel for kernel in kernels if not set(kernel.decoded.dtypes) <= set(accepted)]
    if others:
        strange = dict.fromkeys(dtype for kernel in others for dtype in kernel.decoded.dtypes if dtype not in accepted)
        headline = f"{len(others)} of {counted(len(kernels), 'kernel')} a step with {', '.join(strange)}, {expected}"
        return _failed(reading, headline, others)
    if events.why_not_measured:
        return not_measured(reading, expected)
    if not kernels:
        return _failed(reading, f"no kernel a step: none found, {expected}", reading.whole[place].seen)
    silent = [kernel for kernel in kernels if not kernel.decoded.dtypes]
    return _untold("data types", silent, expected) if silent else PASSED


def no_copy(kernels: Reading, memcpys: Reading) -> Verdict:
    """Check that no step copies: no Memcpy, and no kernel that only moves data."""
    expected = f"expected none{kernels.suffix()}"
    for position in range(len(kernels.steps)):
        moving = [kernel for kernel in kernels.chosen[position].seen if kernel.decoded.role in COPY_ROLES]
        copies = memcpys.chosen[position].seen
        if moving or copies:
            told = [counted(len(copies), "memory copy")] if copies else []
            told += [counted(len(moving), "copy kernel")] if moving else []
            headline = f"{' and '.join(told)} a step, {expected}"
            changes = () if kernels.may_differ else (*disagreement(kernels), *disagreement(memcpys))
            return Verdict(Outcome.FAIL, headline, [*copies, *moving], changes)
    unmeasured = [one for one in (kernels, memcpys) if any(events.why_not_measured for events in one.chosen)]
    if unmeasured:
        return not_measured(unmeasured[0], expected)
    unsure = [kernel for events in kernels.chosen for kernel in _unknown(events.seen)]
    if unsure:
        return _untold("copies", unsure, expected)
    return decided([PASSED], kernels, memcpys)


def sdpa_backend(kernels: Reading, ops: Reading, backend: Any) -> Verdict:
    """Check which implementation of attention ran.

    Raises:
        MisuseError: *backend* is none.
    """
    if backend not in SDPA_BACKENDS:
        raise MisuseError(f"assert_sdpa_backend({backend!r}) is no backend; {instead(backend, SDPA_BACKENDS)}")
    expected = f"expected {backend}{kernels.suffix()}"
    verdicts = [_backend_of_step(kernels, ops, place, backend, expected) for place in range(len(kernels.steps))]
    return replace(decided(verdicts, kernels), topic=SDPA_BACKEND)


def _backend_of_step(kernels: Reading, ops: Reading, place: int, backend: str, expected: str) -> Verdict:
    launched, called = kernels.chosen[place], ops.chosen[place]
    seen: Sequence[Kernel] = launched.seen
    attention = [kernel for kernel in seen if kernel.decoded.role == "attention"]
    by_math = [kernel for kernel in seen if any(op.name == MATH_SDPA_OP for op in kernel.chain)]
    math = bool(by_math) or any(op.name == MATH_SDPA_OP for op in called.seen)
    found = {backend_of(kernel) for kernel in attention} | ({"math"} if math else set())
    if found - {backend}:
        headline = f"attention by {', '.join(sorted(found))} a step, {expected}"
        return _failed(kernels, headline, attention or seen)
    for reading in (kernels, ops):
        if reading.chosen[place].why_not_measured:
            return not_measured(reading, expected)
    unsure = _unknown(seen)
    if unsure:
        return _untold("the attention backend", unsure, expected)
    # An op alone is no attention on the GPU: its tensors may live on the CPU, or its kernels were not chosen.
    if not attention and not by_math:
        return _failed(kernels, f"no attention a step: none found, {expected}", seen)
    return PASSED


def backend_of(kernel: Kernel) -> str:
    """Return which backend of SDPA an attention kernel is, or ``external`` for one of another package.

    The op that the dispatcher called says it for certain; where there is none, the name does.
    """
    for op in kernel.chain:
        for backend, starts in _BACKEND_OPS.items():
            if op.name.startswith(starts):
                return backend
    named = kernel.decoded.attention_backend
    return named if named in SDPA_BACKENDS else "external"


def guess(readings: Mapping[str, Reading], guessed: Mapping[str, Any], *, allow_others: Any) -> Verdict:
    """Check a guess of how many kernels of each role, copies, Memsets and host syncs a step has.

    Kernels of a role that the guess does not name contradict it, unless *allow_others*. A kernel
    whose name says nothing may be of any role, unless the guess counts it by naming ``other``.

    Args:
        readings: The events of ``kernel`` and of each name in `OTHER_CLASSES`.
        guessed: By role or class, how many: a number, or the smallest and the largest.
        allow_others: Accept kernels of roles that the guess does not name.

    Raises:
        MisuseError: The guess is empty, or names something that is no role.
    """
    if not isinstance(allow_others, bool):
        raise MisuseError(f"allow_others={allow_others!r} is no truth value; accepted: True or False")
    limits = _limits(guessed)
    read = {name: reading for name, reading in readings.items() if name == "kernel" or name in limits}
    steps = range(len(readings["kernel"].steps))
    verdicts = [_guess_of_step(read, place, limits, allow_others=allow_others) for place in steps]
    found = decided(verdicts, *read.values())
    # Of a pass as well, reports show the guess beside what was seen.
    return verdicts[0] if found.outcome is Outcome.PASS else found


def _limits(guessed: Mapping[str, Any]) -> dict[str, Limit]:
    accepted = (*ROLES, *OTHER_CLASSES)
    if not guessed:
        raise MisuseError("assert_guess() guesses nothing; accepted: such as gemm=2, softmax=1, memcpy=0")
    for name in guessed:
        if name not in accepted:
            told = instead(name, accepted, "{}=")
            raise MisuseError(f"assert_guess({name}=) is no role and no selector; {told}")
    return {name: _guessed_limit(name, value) for name, value in guessed.items()}


def _guessed_limit(name: str, value: Any) -> Limit:
    pair = isinstance(value, (tuple, list))
    return limit(f"assert_guess: {name}", between=value) if pair else limit(f"assert_guess: {name}", value)


def _guess_of_step(
    read: Mapping[str, Reading], place: int, limits: Mapping[str, Limit], *, allow_others: bool
) -> Verdict:
    kernels: Sequence[Kernel] = read["kernel"].chosen[place].seen
    unknown = [] if "other" in limits else _unknown(kernels)
    rows = _guess_rows(read, place, limits, unknown)
    verdicts = [_row_outcome(row, allow_others=allow_others) for row in rows]
    highs = [limits[name].high for name in limits if name not in OTHER_CLASSES]
    # Whatever the unknown kernels are, there are more than the guess has room for.
    crowded = not allow_others and None not in highs and len(kernels) > sum(high or 0 for high in highs)
    if crowded or Outcome.FAIL in verdicts:
        wrong = [row for row, outcome in zip(rows, verdicts, strict=True) if outcome is Outcome.FAIL]
        missed = ", ".join(f"{row.role} {len(row.seen)} ({row.guessed()})" for row in wrong)
        missed = missed or f"{counted(len(kernels), 'kernel')}, one of unknown role too many"
        marked = tuple(row._replace(wrong=row in wrong) for row in rows)
        evidence = [event for row in wrong for event in row.seen]
        return Verdict(Outcome.FAIL, f"the guess is wrong: {missed}", evidence, rows=marked)
    for reading in read.values():
        if reading.chosen[place].why_not_measured:
            return not_measured(reading, "expected the guess")
    if Outcome.NOT_MEASURED in verdicts:
        return _untold("roles", unknown, "expected the guess")
    return Verdict(Outcome.PASS, rows=tuple(rows))


def _guess_rows(
    read: Mapping[str, Reading], place: int, limits: Mapping[str, Limit], unknown: Sequence[Kernel]
) -> list[GuessRow]:
    """Return a row for every role and class that is guessed or seen; the unknown kernels come last."""
    events = read["kernel"].chosen[place]
    by_role: dict[str, list[Any]] = {}
    for kernel in events.seen:
        if not unknown or kernel.decoded.recognized:
            by_role.setdefault(kernel.decoded.role, []).append(kernel)
    rows = []
    for name in dict.fromkeys((*limits, *by_role)):
        source = read[name].chosen[place] if name in OTHER_CLASSES else events
        seen = source.seen if name in OTHER_CLASSES else by_role.get(name, ())
        exact = source.why_not_measured is None and (name in OTHER_CLASSES or not unknown)
        rows.append(GuessRow(name, limits.get(name), tuple(seen), exact))
    return [*rows, GuessRow("unknown", None, tuple(unknown), exact=True)] if unknown else rows


def _row_outcome(row: GuessRow, *, allow_others: bool) -> Outcome:
    if row.role == "unknown":
        return Outcome.PASS  # They blur the other rows.
    allowed = row.limit or (None if allow_others else NONE)
    if allowed is None or allowed.holds(len(row.seen), exact=row.exact):
        return Outcome.PASS
    return Outcome.FAIL if allowed.rules_out(len(row.seen), exact=row.exact) else Outcome.NOT_MEASURED
