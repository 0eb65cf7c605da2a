"""Compilation of inner loops: kept on disk, without the interpreter's lock, without reference counts of arrays.

Numba counts references to an array whenever one function hands it to another; where a function is called once for each
row, counting takes longer than the work. These kernels make no arrays, so nothing needs to be counted (`_nrt=False`).
Measured on a 4 MiB block of UBI documents: 16.7 ms instead of 40.9 ms.
"""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

kernel = njit(cache=True, nogil=True, _nrt=False, no_cfunc_wrapper=True)
"""A loop over many rows, called from Python. It makes no arrays."""
part = njit(cache=True, nogil=True, _nrt=False, no_cfunc_wrapper=True, no_cpython_wrapper=True)
"""A function of kernels, not callable from Python."""
inlined = njit(cache=True, nogil=True, _nrt=False, no_cfunc_wrapper=True, no_cpython_wrapper=True, forceinline=True)
"""The same, inlined where it is called."""


@intrinsic  # type: ignore[untyped-decorator]
def copy_bytes(_: Any, target: Any, place: Any, source: Any, start: Any, size: Any) -> Any:  # noqa: ARG001
    """Copy some bytes of one array into another, by the C library's memcpy.

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
