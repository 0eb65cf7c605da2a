"""Measures of what a release keeps of single users' interests, declared; `profile_values` computes them."""

from __future__ import annotations

from querycloak.utility.measure import Measure

SANCHEZ = "Sanchez, Batet, Viejo, Rodriguez-Garcia & Castella-Roca, releasing query logs, semantic-preserving, 2018"
SIMILARITY = "Sanchez, Batet, Isern & Valls, Ontology-based semantic similarity: a new feature-based approach, 2012"

PROFILE_LOSS = Measure(
    "profile_loss",
    "mean over users of the Jensen-Shannon divergence (base 2) between their shares of topics in the log and in the "
    "release; what lies under no topic is a topic of its own",
    f"{SANCHEZ}, eq. 9 to 11",
    "lower",
)
PROFILE_LOSS_ON_TOPICS = Measure(
    "profile_loss_on_topics",
    "the same over the named topics alone: what lies under none is left out, and a profile that is empty on one side "
    "only is as far as can be",
    f"{SANCHEZ}, whose figures it fits",
    "lower",
)
CLOSENESS = Measure(
    "closeness",
    "mean similarity of meaning between a query's concept and the one that stands for it, 1 where they are the same",
    f"{SIMILARITY}; {SANCHEZ}, eq. 5",
    "higher",
)
KEPT = Measure("kept", "share of queries that stand for themselves", "querycloak", "none")
PROFILE_MEASURES = {measure.name: measure for measure in (PROFILE_LOSS, PROFILE_LOSS_ON_TOPICS, CLOSENESS, KEPT)}
