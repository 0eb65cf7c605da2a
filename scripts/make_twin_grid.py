"""Write the studio's grid of synthetic twins: `python -m scripts.make_twin_grid [USERS ...]`.

With numbers of users, only their twins are counted, and others stay as they are. 100,000 users take some minutes.
"""

from __future__ import annotations

import json
import sys

from querycloak.studio.twin_grid import EPSILONS, GRID, SEARCHES, USERS, measured_rows


def main() -> None:
    sizes = [int(given) for given in sys.argv[1:]] or list(USERS)
    twins = json.loads(GRID.read_text())["twins"] if len(sys.argv) > 1 else {}
    for users in sizes:
        cells = twins.setdefault(str(users), {})
        for searches in SEARCHES:
            cells[str(searches)] = measured_rows(users, searches)
            print(users, searches, cells[str(searches)], flush=True)
    ordered = {users: twins[users] for users in sorted(twins, key=int)}
    GRID.write_text(json.dumps({"epsilons": EPSILONS, "twins": ordered}, indent=1) + "\n")


if __name__ == "__main__":
    main()
