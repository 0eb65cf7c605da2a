"""`python -m bench.method_audits [--runs N]`: every method with a differentially private promise, where there is power.

A line for each: claimed, proven and measured epsilon, the delta, runs, ceiling, and how many exact bounds hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import querycloak as qc
from querycloak.audits.method_audit import MethodAudit, audit_method
from querycloak.methods.method import Method
from querycloak.privacy.guarantee import Guarantee

POOL = ("weather", "maps", "news", "tennis", "hotels", "games", "music", "movies")


def methods(pool: str) -> dict[str, Method]:
    """One of each kind, at points with power."""
    return {
        "queries laplace": qc.Queries(noise=1, threshold=5, per_user=1),
        "queries rounds": qc.Queries(epsilon=3, delta=0.01, selection="rounds", per_user=8),
        "clicks laplace": qc.Clicks(noise=1, threshold=5, per_user=1),
        "clicks laplace l=4": qc.Clicks(epsilon=1, delta=0.01, selection="laplace", per_user=4),
        "clicks gaussian": qc.Clicks(epsilon=1, delta=0.01, selection="gaussian", per_user=4),
        "clicks two draws": qc.Clicks(noise=1, threshold=5, per_user=1, two_draws=True),
        "clicks weighted": qc.Clicks(epsilon=2, delta=0.01, selection="weighted", per_user=8),
        "clicks rounds": qc.Clicks(epsilon=3, delta=0.01, selection="rounds", per_user=8),
        "clicks auto": qc.Clicks(epsilon=2, delta=0.01, per_user="auto"),
        "clicks coin": qc.Clicks(epsilon=2, delta=0.01, selection="laplace"),
        "clicks without counts": qc.Clicks(epsilon=2, delta=0.01, selection="laplace", counts="none"),
        "clicks counted": qc.Clicks(epsilon=3, delta=0.01, selection="rounds", count_of="clicks"),
        "clicks paper": qc.Clicks(noise=1, threshold=8, variant="paper"),
        "sessions": qc.Sessions(noise=2, threshold=9, sessions_per_user=1, queries_per_session=2, per_user=1),
        "sessions paper": qc.Sessions(noise=1, threshold=8, variant="paper"),
        "query-pool": qc.QueryPool(epsilon=2, pool=pool, queries_per_user=2),
        "query-pool off": qc.QueryPool(epsilon=3, delta=0.01, pool=pool, off_pool=True, queries_per_user=2),
        "query-pool paper": qc.QueryPool(
            noise=1, threshold=10, pool=pool, variant="paper", queries_per_user=1, clicks_per_user=1
        ),
        "optimal": qc.Optimal(epsilon=2, delta=0.01, per_user=4, linked_per_user=3),
        "semantic": qc.Semantic(epsilon=2, domain="sport", max_queries=2),
        "semantic counts": qc.Semantic(epsilon=2, domain="question", criterion="hbdp", max_queries=3),
        "semantic paper": qc.Semantic(epsilon=2, domain="sport", variant="paper"),
    }


def line(name: str, found: MethodAudit, seconds: float) -> str:
    """A row of the table."""
    worst = found.measured
    held = sum(not each.refuted for each in found.exact)
    verdict = "holds" if found.holds else "BROKEN"
    verdict += ", claim refuted" if found.refutes_claim else ""
    return (
        f"| {name} | {_numbers(found.method.claimed())} | {_numbers(found.method.proven())} | {worst.per_account:.3f} "
        f"| {found.delta:.3g} | {worst.runs:,} | {found.tester.ceiling:.2f} | {held}/{len(found.exact)} | {verdict} "
        f"| {seconds:.0f} |\n"
    )


def _numbers(guarantee: Guarantee | None) -> str:
    if guarantee is None:
        return "-"
    return "{:.3g}, {:.3g}".format(*guarantee.numbers) if guarantee.covers_release else f"none ({guarantee.kind})"


def main() -> None:
    """Audit all, or those named."""
    parser = argparse.ArgumentParser(prog="python -m bench.method_audits", description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    sys.stdout.write("| method | claimed | proven | measured | delta | runs | ceiling | exact | verdict | s |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|---|---|---|\n")
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder) / "pool.txt"
        pool.write_text("\n".join(POOL) + "\n")
        for name, method in methods(str(pool)).items():
            if given.names and name not in given.names:
                continue
            start = time.perf_counter()
            found = audit_method(method, runs=given.runs)
            sys.stdout.write(line(name, found, time.perf_counter() - start))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
