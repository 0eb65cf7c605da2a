"""`querycloak demo`: the main job, for somebody who sees it for the first time."""

from __future__ import annotations

from querycloak.logs.searchlog import SearchLog
from querycloak.present.inspecting import show_profile
from querycloak.present.terminal import console


def show_demo(log: SearchLog, *, quiet: bool) -> None:
    """Read the log that comes with querycloak and profile it."""
    if not quiet:
        console().print(
            "A small invented search log in AOL's format comes with querycloak. This is what its owner sees:\n"
        )
    show_profile(log, gap_minutes=30, as_json=False)
    if not quiet:
        console().print("\nNext: querycloak inspect YOUR-LOG (any AOL, Excite, Sogou or UBI log; CSV with --columns)")
