"""The run that each paper reports of its method: what its authors claim of it, and what is proven of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from querycloak.methods.registry import METHODS
from querycloak.privacy.guarantee import Guarantee


class PublishedRun(NamedTuple):
    """A run of a paper: where it stands, and the options that make it."""

    where: str
    options: Mapping[str, Any]


_ZHANG_2017 = {"noise": 1.0, "threshold": 20, "max_keys_per_user": 4}
PUBLISHED_RUNS: Mapping[str, PublishedRun] = {
    "clicks": PublishedRun("Zhang and Yang 2017, DP_C of Table 5", _ZHANG_2017),
    "sessions": PublishedRun("Zhang and Yang 2017, DP_S of Table 5", _ZHANG_2017),
    "query-pool": PublishedRun("Zhang et al. 2016, Tables 4 and 5", {"epsilon": 29.99}),
    "optimal": PublishedRun("Hong et al. 2012, Tables 5 and 6", {"epsilon": math.log(2), "delta": 0.5}),
    "semantic": PublishedRun("Sánchez et al. 2018, its largest epsilon", {"epsilon": 10.0}),
}
"""Rules claim what is proven of them, so they are not here."""


class Published(NamedTuple):
    """Claimed and proven guarantee of a published run."""

    where: str
    claimed: Guarantee
    proven: Guarantee


def published(method: str) -> Published | None:
    """Published runs of a method's paper; None if there is no paper, or if it claims no more than is proven."""
    if method not in PUBLISHED_RUNS:
        return None
    run = PUBLISHED_RUNS[method]
    made = METHODS[method](variant="paper", **run.options)
    claimed = made.claimed()
    return None if claimed is None else Published(run.where, claimed, made.proven())
