"""Measures of what a release keeps of people's interests, declared and callable; `profile_values` computes them."""

from __future__ import annotations

from querycloak.evaluation.measure import Measure
from querycloak.evaluation.tasks import profile_values

SANCHEZ = "Sanchez, Batet, Viejo, Rodriguez-Garcia & Castella-Roca, releasing query logs, semantic-preserving, 2018"
SIMILARITY = "Sanchez, Batet, Isern & Valls, Ontology-based semantic similarity: a new feature-based approach, 2012"

PROFILE_LOSS = Measure(
    "profile_loss",
    "mean over users of the Jensen-Shannon divergence (base 2) between their shares of topics in the log and in the "
    "release; what lies under no topic is a topic of its own",
    f"{SANCHEZ}, eq. 9 to 11",
    "lower",
    compute=profile_values.profile_loss,
)
PROFILE_LOSS_ON_TOPICS = Measure(
    "profile_loss_on_topics",
    "the same over the named topics alone: what lies under none is left out, and a profile that is empty on one side "
    "only is as far as can be",
    f"{SANCHEZ}, whose figures it fits",
    "lower",
    compute=profile_values.profile_loss_on_topics,
)
POOLED_LOSS = Measure(
    "pooled_loss",
    "the Jensen-Shannon divergence (base 2) between the shares of topics in the whole log and in the whole release",
    f"querycloak, after {SANCHEZ}",
    "lower",
    compute=profile_values.pooled_loss,
)
POOLED_LOSS_ON_TOPICS = Measure(
    "pooled_loss_on_topics",
    "the same over the named topics alone",
    f"querycloak, after {SANCHEZ}",
    "lower",
    compute=profile_values.pooled_loss_on_topics,
)
CLOSENESS = Measure(
    "closeness",
    "mean similarity of meaning between a query's concept and the one that stands for it, 1 where they are the same",
    f"{SIMILARITY}; {SANCHEZ}, eq. 5",
    "higher",
    compute=profile_values.closeness,
)
KEPT = Measure(
    "kept", "share of queries that stand for themselves", "querycloak", "none", compute=profile_values.kept_share
)
POOLED_MEASURES = (POOLED_LOSS, POOLED_LOSS_ON_TOPICS)
USER_MEASURES = (PROFILE_LOSS, PROFILE_LOSS_ON_TOPICS)
PROFILE_MEASURES = {measure.name: measure for measure in (*USER_MEASURES, *POOLED_MEASURES, CLOSENESS, KEPT)}
