"""Compilation of inner loops: when first called, kept on disk, without the interpreter's lock or reference counts.

Numba counts references to an array whenever one function hands it to another; where a function is called once for each
row, counting takes longer than the work. Kernels make no arrays, so nothing needs to be counted (`_nrt=False`).
Measured on a 4 MiB block of UBI documents: 16.7 ms instead of 40.9 ms.

Importing numba takes 0.4 s, as long as all other work on a log of 10,000 rows. So it is imported when the first loop is
compiled, and loops that a small and plain log needs have a second form, over whole arrays (`text/array_forms.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

from querycloak.compiled_code import import_numba

SMALL, ENOUGH = 2 << 20, 32 << 20
"""Bytes of an array, and of all arrays together, for which array forms are used: 5 ms a MiB, against 0.4 s and more."""


class Loop:
    """A loop that numba compiles when it is first called, from Python or from another loop."""

    bytes_so_far = 0  # of all arrays given to array forms

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], array_form: Any = None) -> None:
        self.function = function
        self.array_form = array_form
        self._options = options
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    @cached_property
    def compiled(self) -> Any:
        """The function of numba."""
        import_numba()
        from querycloak.text.numba_functions import njit

        return njit(**self._options)(self.function)

    @property
    def _numba_type_(self) -> Any:
        """Numba asks for it where another loop calls this one."""
        return self.compiled._numba_type_

    def __call__(self, *given: Any) -> Any:
        """Result of the loop; of its array form as long as numba was not needed and there is little to do."""
        if self.array_form is None or "numba" in sys.modules:
            return self.compiled(*given)
        size = given[0].nbytes
        if size > SMALL or Loop.bytes_so_far > ENOUGH:
            return self.compiled(*given)
        Loop.bytes_so_far += size
        return self.array_form(*given)


_KERNEL = {"cache": True, "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}
_PART = _KERNEL | {"no_cpython_wrapper": True}


def kernel(function: Callable[..., Any]) -> Loop:
    """A loop over many rows, called from Python. It makes no arrays."""
    return Loop(function, _KERNEL)


def kernel_or(array_form: Callable[..., Any]) -> Callable[[Callable[..., Any]], Loop]:
    """A kernel with an equivalent form over whole arrays, for small logs."""
    return lambda function: Loop(function, _KERNEL, array_form)


def part(function: Callable[..., Any]) -> Loop:
    """A function of kernels, not callable from Python."""
    return Loop(function, _PART)


def inlined(function: Callable[..., Any]) -> Loop:
    """A function of kernels that is inlined where it is called."""
    return Loop(function, _PART | {"forceinline": True})


def copy_bytes(target: Any, place: Any, source: Any, start: Any, size: Any) -> None:
    """Copy some bytes of one array into another; `numba_functions.py` compiles it to the C library's memcpy."""
    target[place : place + size] = source[start : start + size]
