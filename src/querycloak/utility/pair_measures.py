"""Measures of a release in the log's own schema, declared; `pair_values` computes them.

Supports are shares of all clicks on pairs that at least two users hold, as in the paper.
"""

from __future__ import annotations

from querycloak.privacy.parameters import share
from querycloak.utility.measure import Measure

HONG = "Hong, Vaidya, Lu & Wu, Differentially private search log sanitization with optimal output utility, EDBT 2012"
OURS = "querycloak, after the same paper"


def pair_measures(support: float) -> dict[str, Measure]:
    """All measures by name, with pairs frequent from this support on."""
    share("support", support, "give the share of all clicks that makes a pair frequent, such as 0.002")
    frequent = {"support": support}
    declared = [
        Measure("precision", "share of the release's frequent pairs that are frequent in the log", f"{HONG}, eq. 9",
                "higher", frequent),
        Measure("recall", "share of the log's frequent pairs that are frequent in the release", f"{HONG}, eq. 9",
                "higher", frequent),
        Measure("support_distance", "sum over the log's frequent pairs of how far supports are apart", f"{HONG}, eq. 5",
                "lower", frequent),
        Measure("average_support_distance", "the same for each such pair", f"{HONG}, section 6.3", "lower", frequent),
        Measure("diversity", "share of the log's shared pairs that come out", f"{HONG}, section 6.4", "higher"),
        Measure("query_diversity", "share of the queries of shared pairs that come out", f"{HONG}, section 5.3",
                "higher"),
        Measure("size", "rows of the release, each as often as its count, as a share of the log's", f"{HONG}, table 4",
                "higher"),
        Measure("diff_ratio", "how many triplets of user and frequent pair are off by a tenth, two tenths ... of their "
                "share; users are compared by rank within a pair, for names are made up", f"{HONG}, eq. 10", "none",
                frequent),
        Measure("association_error", "total variation between which two frequent pairs users hold together, in the log "
                "and in the release", OURS, "lower", frequent),
        Measure("pairs_per_user_error", "total variation between how many frequent pairs users hold, of those who hold "
                "any", OURS, "lower", frequent),
    ]  # fmt: skip
    return {measure.name: measure for measure in declared}
