"""Numba, with one function of ours: bytes that are copied at once."""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from querycloak.text.compiled import copy_bytes

__all__ = ["njit"]


@intrinsic  # type: ignore[untyped-decorator]
def _memcpy(_: Any, target: Any, place: Any, source: Any, start: Any, size: Any) -> Any:  # noqa: ARG001
    """Copy bytes by the C library's memcpy.

    Measured on the texts of a 4 MiB block of an AOL log (1.3 MB in spans of 5 to 40 bytes): 0.9 ms, against 3.2 ms of
    a plain loop and 2.0 ms of the fastest loop in numba (unsigned indices), of 16.6 ms to parse the block.
    """

    def lowered(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        into, place, out_of, start, size = given
        to, at = (
            context.make_array(kind)(context, builder, array).data
            for kind, array in ((signature.args[0], into), (signature.args[2], out_of))
        )
        cgutils.raw_memcpy(builder, builder.gep(to, [place]), builder.gep(at, [start]), size, 1)
        return context.get_dummy_value()

    if any(each.layout != "C" or each.dtype != types.uint8 for each in (target, source)):
        return None  # numba then refuses to compile: bytes that do not stand side by side cannot be copied at once
    number = types.int64
    return types.void(target, number, source, number, number), lowered


@overload(copy_bytes, jit_options={"_nrt": False})  # type: ignore[untyped-decorator]
def _copy_bytes(target: Any, place: Any, source: Any, start: Any, size: Any) -> Any:  # noqa: ARG001
    def copied(target: Any, place: Any, source: Any, start: Any, size: Any) -> None:
        _memcpy(target, place, source, start, size)

    return copied
