"""Places where a test can kill the process, to show that a crash leaves a whole release or none.

Nothing happens unless $QUERYCLOAK_FAULT names the place; then the process ends there by SIGKILL, as it would
for the kernel's out-of-memory killer: no clean-up runs. The places, before and after each:

    charge · lower · write FILE · sync FILE · announce · sync folder · rename · sync parent · complete ·
    put (a private file)
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "QUERYCLOAK_FAULT"


def reached(name: str) -> None:
    """Say that a place is reached; end the process if a test wants it to end here."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def around(step: str) -> Iterator[None]:
    """Say that a step begins, and that it has succeeded."""
    reached(f"before {step}")
    yield
    reached(f"after {step}")
