"""How inner loops are compiled: once and kept, without the interpreter's lock, and without counting who uses an array.

Numba counts the users of an array whenever it is handed from one function to another; where a function is asked once
for each row, that takes longer than its work. These kernels make no arrays, so nothing needs to be counted.
"""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

kernel = njit(cache=True, nogil=True, _nrt=False, no_cfunc_wrapper=True)
"""What Python asks for: a loop over many rows. It makes no arrays."""
part = njit(cache=True, nogil=True, _nrt=False, no_cfunc_wrapper=True, no_cpython_wrapper=True)
"""A part of kernels, that Python does not ask for."""
inlined = njit(cache=True, nogil=True, _nrt=False, no_cfunc_wrapper=True, no_cpython_wrapper=True, forceinline=True)
"""A part that is put into the place where it is asked for."""


@intrinsic  # type: ignore[untyped-decorator]
def copy_bytes(_: Any, target: Any, place: Any, source: Any, start: Any, size: Any) -> Any:  # noqa: ARG001
    """Copy some bytes of one array into another, as the C library does it: ten times as fast as a loop."""

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
