"""Import of numba, and the folder of its compiled code.

The folder is beside the package or in the user's cache, as numba does, or below the temporary folder. In a container,
or for a service without a home, neither of the first two can be written, and numba refuses to work.
What is loaded from there is executed, so the folder must be one that nobody else can have written to.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "NUMBA_CACHE_DIR"
ADVICE = (
    f"compiled code is kept in a temporary folder; set {VARIABLE} to a folder that you can write to keep it for good"
)
_chosen: list[str] = []
_needless: list[str] = []


def choose_place() -> None:
    """Name a private folder to numba, if it would find none by itself; call it before numba is imported."""
    if VARIABLE in os.environ or "numba" in sys.modules:
        return
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if _can_write(os.path.dirname(os.path.abspath(__file__))) or _can_write(os.path.join(caches, "numba")):
        return
    place = _private_place()
    os.environ[VARIABLE] = place
    _chosen.append(place)


class _Finder:
    """Finder of modules that hides some; others are left to the next finder."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def find_spec(self, name: str, *_: object) -> None:
        """Return None; raise ModuleNotFoundError for a hidden module."""
        if name in self._names:
            raise ModuleNotFoundError(name)


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Modules that a library looks for in vain meanwhile, as if they were not installed."""
    finder = _Finder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def hide_from_numba(name: str) -> None:
    """Hide a module whenever numba is imported; nothing if it is imported already."""
    _needless.append(name)


def import_numba() -> None:
    """Import numba, and the part of it that looks for SciPy."""
    with hidden(*_needless):
        import numba.np.arraymath  # noqa: F401


def advice() -> str | None:
    """Advice if code is compiled again and again."""
    return ADVICE if _chosen and "numba" in sys.modules else None


def _can_write(folder: str) -> bool:
    """True if files can be made in a folder, which may have to be made first."""
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def _private_place() -> str:
    """This user's folder, the same for all commands; a new one if another user owns that name."""
    import tempfile  # only where it is needed: this runs whenever querycloak is imported

    parent = os.environ.get("QUERYCLOAK_TMP") or tempfile.gettempdir()
    place = os.path.join(parent, f".querycloak-compiled-{os.getuid()}")
    try:
        os.mkdir(place, 0o700)
    except OSError:
        if not _is_own(place):
            return tempfile.mkdtemp(prefix=".querycloak-private-", dir=parent)
    return place


def _is_own(folder: str) -> bool:
    if not os.path.lexists(folder):
        return False
    status = os.lstat(folder)
    return status.st_uid == os.getuid() and status.st_mode & 0o170777 == 0o040700
