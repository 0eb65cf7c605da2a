"""What papers claim of their own runs, beside what is proven of these."""

from __future__ import annotations

import pytest

from querycloak.comparison.comparison_plan import PUBLISHED_RUNS, published
from querycloak.methods.registry import BUILT_IN


@pytest.mark.parametrize(
    ("method", "claimed", "kind", "proven"),
    [
        # Zhang and Yang 2017, Table 4, row 2. With integer noise one part is proven (8, 3.03e-8), both twice that.
        ("clicks", (8.0, 2.25e-7), "approximate-dp", (8.0, 3.03e-8)),
        ("sessions", (8.0, 2.25e-7), "approximate-dp", (16.0, 6.05e-8)),
        # Zhang et al. 2016, Section 6.1: epsilon = 29.99, and delta = 0; nothing of it is proven.
        ("query-pool", (29.99, 0.0), "syntactic", None),
        # Hong et al. 2012, Tables 5 and 6: e^epsilon = 2, delta = .5; the step of sampling alone.
        ("optimal", (0.693, 0.5), "sampling-only", (0.0, 0.5)),
        ("semantic", (10.0, 0.0), "sampling-only", (10.0, 0.0)),
    ],
)
def test_claims_and_proofs_of_the_papers_own_runs(
    method: str, claimed: tuple[float, float], kind: str, proven: tuple[float, float] | None
) -> None:
    found = published(method)
    assert found is not None
    assert (found.claimed.epsilon, found.claimed.delta) == pytest.approx(claimed, rel=0.001)
    assert found.proven.kind == kind
    if proven is None:
        assert found.proven.epsilon is None
    else:
        assert (found.proven.epsilon, found.proven.delta) == pytest.approx(proven, rel=0.01, abs=1e-12)


def test_rules_and_methods_without_a_paper_have_none() -> None:
    assert [name for name in BUILT_IN if published(name) is None] == [
        name for name in BUILT_IN if name not in PUBLISHED_RUNS
    ]
