"""`python -m bench.method_audits [--runs N]`: every method with a differentially private promise, where there is power.

A line for each: claimed, proven and measured epsilon, the delta, runs, ceiling, and how many exact bounds hold.
`--csv docs/tables/method-audits.csv` keeps them for docs/audits.md (`python scripts/make_audit_pages.py` writes the
table); lines in that file of methods that are not audited now stay.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from pathlib import Path

import querycloak as qc
from querycloak.audits.guarantees.method_audit import MethodAudit, audit_method
from querycloak.methods.method import Method
from querycloak.privacy.guarantee import Guarantee

POOL = ("weather", "maps", "news", "tennis", "hotels", "games", "music", "movies")


def methods(pool: str) -> dict[str, Method]:
    """One of each kind, at points with power."""
    return {
        "queries": qc.Queries(epsilon=8, delta=1e-6),
        "queries laplace": qc.Queries(noise=1, threshold=5, max_keys_per_user=1),
        "queries multi-round": qc.Queries(epsilon=3, delta=0.01, selection="multi-round", max_keys_per_user=8),
        "clicks": qc.Clicks(epsilon=2, delta=0.01),
        "clicks laplace": qc.Clicks(noise=1, threshold=5, max_keys_per_user=1),
        "clicks laplace l=4": qc.Clicks(epsilon=1, delta=0.01, selection="laplace", max_keys_per_user=4),
        "clicks gaussian": qc.Clicks(epsilon=1, delta=0.01, selection="gaussian", max_keys_per_user=4),
        "clicks two draws": qc.Clicks(noise=1, threshold=5, max_keys_per_user=1, two_draws=True),
        "clicks weighted": qc.Clicks(epsilon=2, delta=0.01, selection="weighted", max_keys_per_user=8),
        "clicks multi-round": qc.Clicks(epsilon=3, delta=0.01, selection="multi-round", max_keys_per_user=8),
        "clicks priors": qc.Clicks(
            epsilon=3, delta=0.01, selection="multi-round", max_keys_per_user=8, priors="public"
        ),
        "clicks bound chosen": qc.Clicks(epsilon=2, delta=0.01, selection="laplace", max_keys_per_user="auto"),
        "clicks coin": qc.Clicks(epsilon=2, delta=0.01, selection="laplace"),
        "clicks without counts": qc.Clicks(epsilon=2, delta=0.01, counts="none"),
        "clicks without counts, laplace": qc.Clicks(epsilon=2, delta=0.01, selection="laplace", counts="none"),
        "clicks without counts, multi-round": qc.Clicks(
            epsilon=3, delta=0.01, selection="multi-round", max_keys_per_user=8, counts="none"
        ),
        "clicks counted": qc.Clicks(
            epsilon=3, delta=0.01, selection="multi-round", max_keys_per_user=8, count_of="clicks"
        ),
        "clicks counted, laplace": qc.Clicks(epsilon=3, delta=0.01, selection="laplace", count_of="clicks"),
        "clicks paper": qc.Clicks(noise=1, threshold=8, variant="paper"),
        "sessions": qc.Sessions(epsilon=8, delta=1e-6),
        "sessions laplace": qc.Sessions(
            noise=2, threshold=9, sessions_per_user=1, queries_per_session=2, max_keys_per_user=1
        ),
        "sessions with queries": qc.Sessions(
            epsilon=3, delta=0.01, selection="multi-round", max_keys_per_user=8, tables="queries,sessions"
        ),
        "sessions paper": qc.Sessions(noise=1, threshold=8, variant="paper"),
        "query-pool": qc.QueryPool(epsilon=2, pool=pool, queries_per_user=2),
        "query-pool clicks": qc.QueryPool(epsilon=3, delta=0.01, pool=pool, queries_per_user=2),
        "query-pool off": qc.QueryPool(epsilon=3, delta=0.01, pool=pool, off_pool=True, queries_per_user=2),
        "query-pool selected": qc.QueryPool(epsilon=1, delta=1e-6, off_pool=True, selection="multi-round"),
        "query-pool paper": qc.QueryPool(
            noise=1, threshold=10, pool=pool, variant="paper", queries_per_user=1, clicks_per_user=1
        ),
        "phrases": qc.Phrases(epsilon=1, delta=1e-6),
        "synthetic": qc.Synthetic(epsilon=1, delta=1e-6),
        "optimal": qc.Optimal(epsilon=2, delta=0.01, max_keys_per_user=4, linked_per_user=3),
        "optimal paper": qc.Optimal(epsilon=2, delta=0.5, variant="paper"),
        "semantic": qc.Semantic(epsilon=2, domain="sport", max_queries=2),
        "semantic delta": qc.Semantic(epsilon=2, delta=0.01, domain="sport", max_queries=8),
        "semantic candidates": qc.Semantic(epsilon=2, domain="sport", max_queries=2, candidates="usual=20"),
        "semantic reuse": qc.Semantic(epsilon=2, domain="sport", repeats="reuse"),
        "semantic query": qc.Semantic(epsilon=2, domain="sport", budget_per="query"),
        "semantic counts": qc.Semantic(epsilon=2, domain="question", criterion="hbdp", max_queries=3),
        "semantic paper": qc.Semantic(epsilon=2, domain="sport", variant="paper"),
    }


COLUMNS = ("method", "claimed", "proven", "measured", "delta", "runs", "ceiling", "exact", "verdict", "s")
Row = dict[str, str]


def row_of(name: str, found: MethodAudit, seconds: float) -> Row:
    """A row of the table."""
    worst = found.measured
    held = sum(not each.refuted for each in found.exact)
    verdict = "holds" if found.holds else "BROKEN"
    if not found.method.proven().covers_release:
        verdict = "claim refuted" if found.refutes_claim else "claim stands"
    elif found.refutes_claim:
        verdict += ", claim refuted"
    shown = int(worst.per_account * 1000) / 1000  # a lower bound: cut, never rounded up
    return {
        "method": name,
        "claimed": _numbers(found.method.claimed()),
        "proven": _numbers(found.method.proven()),
        "measured": f"{shown:.3f}",
        "delta": f"{found.delta:.3g}",
        "runs": f"{worst.runs:,}",
        "ceiling": f"{found.tester.ceiling:.2f}",
        "exact": f"{held}/{len(found.exact)}",
        "verdict": verdict,
        "s": f"{seconds:.0f}",
    }


def _numbers(guarantee: Guarantee | None) -> str:
    if guarantee is None:
        return "-"
    return "{:.3g}, {:.3g}".format(*guarantee.numbers) if guarantee.covers_release else f"none ({guarantee.kind})"


def keep(path: Path, row: Row) -> None:
    """Write the row into the file, in place of what it says of the same method."""
    kept: list[Row] = []
    if path.exists():
        with path.open(newline="") as opened:
            kept = list(csv.DictReader(opened))
    order = [*dict.fromkeys([*(each["method"] for each in kept), row["method"]])]
    rows = {each["method"]: each for each in [*kept, row]}
    with path.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[method] for method in order)


def main() -> None:
    """Audit all, or those named."""
    parser = argparse.ArgumentParser(prog="python -m bench.method_audits", description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--csv", type=Path, help="keep the lines for the docs")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    sys.stdout.write(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n")
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder) / "pool.txt"
        pool.write_text("\n".join(POOL) + "\n")
        for name, method in methods(str(pool)).items():
            if given.names and name not in given.names:
                continue
            start = time.process_time()
            row = row_of(name, audit_method(method, runs=given.runs), time.process_time() - start)
            sys.stdout.write(f"| {' | '.join(row.values())} |\n")
            sys.stdout.flush()
            if given.csv is not None:
                keep(given.csv, row)


if __name__ == "__main__":
    main()
