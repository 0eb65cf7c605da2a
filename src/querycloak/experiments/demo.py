"""The demo: a small invented log, released in every way there is, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.clicks import Clicks
from querycloak.methods.k_anonymity import KAnonymity
from querycloak.methods.method import Method

EPSILON, DELTA = 4.0, 1e-6


@dataclass(frozen=True)
class Compared:
    """One way of releasing the demo's log, and what is left of its clicks."""

    title: str
    method: Method
    pairs: int
    volume: int
    seen_by_few: int


def demo_log() -> SearchLog:
    """The small invented log that comes with querycloak."""
    return read(str(files("querycloak.experiments") / "data" / "demo.tsv.gz"))


def demo_methods() -> dict[str, Method]:
    """What the demo compares."""
    return {
        "k-anonymity, 5 users": KAnonymity(min_users=5),
        "clicks as published": Clicks(epsilon=EPSILON, delta=DELTA, variant="paper"),
        "clicks, 1 per user": Clicks(epsilon=EPSILON, delta=DELTA, per_user=1),
        "clicks, default": Clicks(epsilon=EPSILON, delta=DELTA),
    }


def compare(log: SearchLog, out: Path | None) -> Iterator[Compared]:
    """Release the log with each method; keep the releases if there is a folder for them."""
    clicks = log.clicks
    true = log.engine.fetch(clicks.group_by(["query", "url"]).agg(users=clicks.user.nunique(), clicks=clicks.count()))
    facts = {(row["query"], row["url"]): (row["users"], row["clicks"]) for row in true.to_pylist()}
    yield Compared("the log itself", KAnonymity(min_users=2), len(facts), sum(c for _, c in facts.values()), sum(u < 5 for u, _ in facts.values()))  # noqa: E501  # fmt: skip
    for title, method in demo_methods().items():
        release = method.release(log)
        rows = [facts[row["query"], row["url"]] for row in release.table("clicks").to_pylist()]
        if out is not None:
            release.save(out / title.replace(", ", "-").replace(" ", "-"))
        yield Compared(title, method, len(rows), sum(c for _, c in rows), sum(u < 5 for u, _ in rows))
