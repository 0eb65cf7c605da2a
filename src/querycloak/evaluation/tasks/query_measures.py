"""Measures of which queries a release keeps, declared and callable; `query_values` computes them."""

from __future__ import annotations

from querycloak.evaluation.measure import Measure
from querycloak.evaluation.tasks import query_values
from querycloak.privacy.parameters import number_above_zero

CARPINETO = "Carpineto & Romano, K-theta-affinity privacy: Releasing infrequent query refinements safely, 2015"
TERROVITIS = "Terrovitis, Mamoulis & Kalnis, Privacy-preserving anonymization of set-valued data, VLDB 2008"
RIJSBERGEN = "van Rijsbergen, Information retrieval, 1979"

SHARE_RELEASED = Measure(
    "share_released", "share of the log's distinct queries that come out", f"{CARPINETO}, figure 5", "higher",
    compute=query_values.query_share,
)  # fmt: skip
NCP = Measure(
    "ncp",
    "normalised certainty penalty: for each word 0 if it comes out as it is, the share of the taxonomy's leaves under "
    "what stands for it, 1 if it is left out; the mean over all words of all searches",
    f"{TERROVITIS}; {CARPINETO}, figure 7",
    "lower",
    compute=query_values.ncp,
)
SENSITIVE_RELEASED = Measure(
    "sensitive_released", "share of the labelled sensitive queries that come out", "querycloak", "lower",
    compute=query_values.sensitive_share,
)  # fmt: skip


def f_beta(beta: float) -> Measure:
    """F of releasing what is not sensitive; below 1, beta makes it worse to release what is."""
    number_above_zero("beta", beta, "give a weight of recall such as 1, or 0.1")
    return Measure(
        "f_beta",
        "weighted harmonic mean of precision (share of what comes out that is not sensitive) and recall (share of what "
        "is not sensitive that comes out)",
        f"{RIJSBERGEN}; {CARPINETO}, figure 6",
        "higher",
        {"beta": beta},
        query_values.f_of,
    )
