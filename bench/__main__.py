"""`python -m bench [--rows N ...] [--folder DIR]`: every bench, one line of JSON each."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench import aol_shaped, reading


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 6_000_000, aol_shaped.ROWS])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "querycloak-bench")
    given = parser.parse_args()
    given.folder.mkdir(mode=0o700, exist_ok=True)
    reading.main(given.rows, given.folder)


if __name__ == "__main__":
    main()
