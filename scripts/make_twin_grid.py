"""Write the studio's grid of synthetic twins: `python -m scripts.make_twin_grid`. It takes some minutes."""

from __future__ import annotations

import json

from querycloak.studio.twin_grid import EPSILONS, GRID, SEARCHES, USERS, measured_rows


def main() -> None:
    twins: dict[str, dict[str, object]] = {}
    for users in USERS:
        cells = twins.setdefault(str(users), {})
        for searches in SEARCHES:
            cells[str(searches)] = measured_rows(users, searches)
            print(users, searches, cells[str(searches)], flush=True)
    GRID.write_text(json.dumps({"epsilons": EPSILONS, "twins": twins}, indent=1) + "\n")


if __name__ == "__main__":
    main()
