"""Measures of which (query, url) pairs a release keeps, and how often, declared and callable.

Supports are shares of all clicks on pairs that at least two users hold, as in the paper.
"""

from __future__ import annotations

from typing import Any

from querycloak.evaluation.measure import Measure
from querycloak.evaluation.tasks import pair_values
from querycloak.methods.optimal.holdings import Holdings
from querycloak.privacy.parameters import share

HONG = "Hong, Vaidya, Lu & Wu, Differentially private search log sanitization with optimal output utility, EDBT 2012"
OURS = "querycloak, after the same paper"
WITH_USERS = ("diff_ratio", "association_error", "pairs_per_user_error")
"""Those that a release without users has not."""


def pair_measures(support: float) -> dict[str, Measure]:
    """All measures by name, with pairs frequent from this support on."""
    share("support", support, "give the share of all clicks that makes a pair frequent, such as 0.002")
    frequent = {"support": support}
    declared = [
        Measure("precision", "share of the release's frequent pairs that are frequent in the log", f"{HONG}, eq. 9",
                "higher", frequent, pair_values.precision),
        Measure("recall", "share of the log's frequent pairs that are frequent in the release", f"{HONG}, eq. 9",
                "higher", frequent, pair_values.recall),
        Measure("support_distance", "sum over the log's frequent pairs of how far supports are apart", f"{HONG}, eq. 5",
                "lower", frequent, pair_values.support_distance),
        Measure("average_support_distance", "the same for each such pair", f"{HONG}, section 6.3", "lower", frequent,
                pair_values.average_support_distance),
        Measure("diversity", "share of the log's shared pairs that come out", f"{HONG}, section 6.4", "higher",
                compute=pair_values.diversity),
        Measure("query_diversity", "share of the queries of shared pairs that come out", f"{HONG}, section 5.3",
                "higher", compute=pair_values.query_diversity),
        Measure("size", "rows of the release, each as often as its count, as a share of the log's", f"{HONG}, table 4",
                "higher", compute=pair_values.size),
        Measure("diff_ratio", "how many triplets of user and frequent pair are off by a tenth, two tenths ... of their "
                "share; users are compared by rank within a pair, for names are made up", f"{HONG}, eq. 10", "none",
                frequent, pair_values.diff_ratio_by_rank),
        Measure("association_error", "total variation between which two frequent pairs users hold together, in the log "
                "and in the release", OURS, "lower", frequent, pair_values.association_error),
        Measure("pairs_per_user_error", "total variation between how many frequent pairs users hold, of those who hold "
                "any", OURS, "lower", frequent, pair_values.pairs_per_user_error),
    ]  # fmt: skip
    return {measure.name: measure for measure in declared}


_OF_SUPPORTS = ("precision", "recall", "support_distance", "average_support_distance", "diversity")


def values(log: Holdings, output: pair_values.Output, support: float) -> dict[str, Any]:
    """The value of every measure by name, those of users only where the release has some."""
    before, after = pair_values.supports(log, output)
    return {
        name: measure(before, after) if name in _OF_SUPPORTS else measure(log, output)
        for name, measure in pair_measures(support).items()
        if output.user is not None or name not in WITH_USERS
    }
