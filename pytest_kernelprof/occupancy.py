"""Registers, shared memory and block size to theoretical occupancy.

Source:
    NVIDIA, CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability"
    (warps, blocks, registers and shared memory of a multiprocessor), and ``cuda_occupancy.h`` of
    the CUDA toolkit (units of allocation, 4 sub-partitions). Compared with the driver's own
    ``cuOccupancyMaxActiveBlocksPerMultiprocessor`` on an H200, 31,533 shapes: all equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from .errors import MisuseError
from .units import whole_number

WARP_SIZE = 32
_SUB_PARTITIONS = 4
"""A multiprocessor has four, each with a quarter of the registers; a warp lives in one of them."""
_REGISTER_UNIT = 256
"""Registers are given to a warp in units of so many."""
_MOST_THREADS = 1024
_MOST_REGISTERS = 255
_KIB = 1024


class Multiprocessor(NamedTuple):
    """What one multiprocessor (SM) holds at a time.

    Attributes:
        warps: Most resident warps.
        blocks: Most resident blocks.
        registers: 32-bit registers.
        shared_memory_bytes: Shared memory.
        reserved_bytes: Shared memory that the driver keeps for itself in every block.
        shared_memory_unit: Shared memory is given to a block in units of so many bytes.
    """

    warps: int
    blocks: int
    registers: int
    shared_memory_bytes: int
    reserved_bytes: int
    shared_memory_unit: int


class Occupancy(NamedTuple):
    """How much of a multiprocessor a kernel can keep busy.

    Attributes:
        fraction: Resident warps as a fraction of the most that there can be, 0 to 1.
        blocks: Resident blocks.
        warps: Resident warps.
        limited_by: What there is too little of: ``registers``, ``shared memory``, ``warps``,
            ``blocks``; several where they bind alike.
    """

    fraction: float
    blocks: int
    warps: int
    limited_by: tuple[str, ...]


def _volta(warps: int, blocks: int, shared_kib: int) -> Multiprocessor:
    return Multiprocessor(warps, blocks, 65_536, shared_kib * _KIB, 0, 256)


def _since_ampere(warps: int, blocks: int, shared_kib: int) -> Multiprocessor:
    return Multiprocessor(warps, blocks, 65_536, shared_kib * _KIB, _KIB, 128)


MULTIPROCESSORS: Mapping[str, Multiprocessor] = {
    "7.0": _volta(64, 32, 96),
    "7.2": _volta(64, 32, 96),
    "7.5": _volta(32, 16, 64),
    "8.0": _since_ampere(64, 32, 164),
    "8.6": _since_ampere(48, 16, 100),
    "8.7": _since_ampere(48, 16, 164),
    "8.9": _since_ampere(48, 24, 100),
    "9.0": _since_ampere(64, 32, 228),
    "10.0": _since_ampere(64, 32, 228),
    "10.1": _since_ampere(48, 24, 228),  # The name of 11.0 before CUDA 13.
    "10.3": _since_ampere(64, 32, 228),
    "11.0": _since_ampere(48, 24, 228),
    # The Blackwell Tuning Guide says 32 blocks, the Programming Guide 24.
    "12.0": _since_ampere(48, 24, 100),
    "12.1": _since_ampere(48, 24, 100),
}
"""By compute capability."""


def theoretical_occupancy(
    threads_per_block: int,
    registers_per_thread: int,
    shared_memory_bytes: int,
    compute_capability: str | tuple[int, int] | float,
) -> float:
    """Return the theoretical occupancy of a launch on an NVIDIA GPU.

    It is the number of warps that a multiprocessor can keep resident, as a fraction of the most
    that it ever can. The grid plays no part, nor do clusters of blocks.

    Args:
        threads_per_block: 1 to 1024.
        registers_per_thread: 0 to 255; 0 takes none.
        shared_memory_bytes: Static and dynamic shared memory of a block, without what the driver
            reserves; the profiler's ``shared memory``.
        compute_capability: ``"9.0"``, ``(9, 0)`` or ``9.0``; 7.0 to 12.1.

    Returns:
        A fraction, 0 to 1; 0 if not even one block fits, so that the launch would fail.

    Raises:
        MisuseError: A number is out of range, or the compute capability is not known.
    """
    capability = _capability(compute_capability)
    processor = MULTIPROCESSORS.get(capability)
    if processor is None:
        raise MisuseError(
            f"compute_capability={compute_capability!r} is not known; accepted: {', '.join(MULTIPROCESSORS)}"
        )
    _check("threads_per_block", threads_per_block, 1, _MOST_THREADS)
    _check("registers_per_thread", registers_per_thread, 0, _MOST_REGISTERS)
    _check("shared_memory_bytes", shared_memory_bytes, 0, None)
    found = occupancy(threads_per_block, registers_per_thread, shared_memory_bytes, processor)
    return found.fraction if found else 0.0


def _check(name: str, value: Any, least: int, most: int | None) -> None:
    """Raise unless a value is a whole number from *least* to *most*."""
    number = whole_number(value)
    if number is None or number < least or (most is not None and number > most):
        accepted = f"at least {least}" if most is None else f"{least} to {most}"
        raise MisuseError(f"{name}={value!r} is not possible; accepted: a whole number, {accepted}")


def _capability(value: Any) -> str:
    """Return a compute capability as text; what is none stays what it is."""
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return f"{value[0]}.{value[1]}"
    if isinstance(value, (int, float)):
        return f"{value:.1f}"
    return str(value)


@lru_cache(maxsize=4096)
def occupancy(
    threads_per_block: int, registers_per_thread: int, shared_memory_bytes: int, processor: Multiprocessor
) -> Occupancy | None:
    """Return the theoretical occupancy of a launch; ``None`` if not even one block fits.

    Args:
        threads_per_block: At least 1.
        registers_per_thread: 0 takes none.
        shared_memory_bytes: Of a block, without what the driver reserves.
        processor: What runs it.
    """
    warps = -(-threads_per_block // WARP_SIZE)
    room = {}
    registers = _rounded(registers_per_thread * WARP_SIZE, _REGISTER_UNIT)
    if registers:
        in_partition = processor.registers // _SUB_PARTITIONS // registers
        room["registers"] = in_partition * _SUB_PARTITIONS // warps
    shared = _rounded(shared_memory_bytes + processor.reserved_bytes, processor.shared_memory_unit)
    if shared:
        room["shared memory"] = processor.shared_memory_bytes // shared
    room |= {"warps": processor.warps // warps, "blocks": processor.blocks}
    blocks = min(room.values())
    if not blocks:
        return None
    limited_by = tuple(name for name, most in room.items() if most == blocks)
    return Occupancy(blocks * warps / processor.warps, blocks, blocks * warps, limited_by)


def _rounded(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def processor_of(compute_capability: str | None, limits: Mapping[str, int]) -> Multiprocessor | None:
    """Return the multiprocessor of a device; ``None`` if its compute capability is not known.

    Args:
        compute_capability: Such as ``9.0``.
        limits: What the device itself says of its ``warps``, ``registers`` and
            ``shared_memory_bytes``: it goes before the table.
    """
    known = MULTIPROCESSORS.get(compute_capability or "")
    return None if known is None else known._replace(**{name: value for name, value in limits.items() if value > 0})
