"""Profiles of topics, their loss, closeness in meaning: by hand, by laws, and the paper's figures in small."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.evaluation.tasks.profiles import (
    CLOSENESS,
    KEPT,
    POOLED_MEASURES,
    USER_MEASURES,
    closeness,
    divergences,
    on_topics,
    profile_loss,
    similarities,
    topic_profiles,
)
from querycloak.logs.searchlog import read
from querycloak.methods.semantic.replacement import Replacement
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.reproduction.sanchez2018_figures import (
    SETTINGS,
    Profiled,
    Setting,
    _method,
    _placed,
    points,
    profiled_users,
)
from querycloak.text.taxonomy import FOUR, topic_concepts, topics_of
from querycloak.text.wordnet import wordnet
from tests.logs import aol, write
from tests.unit.methods.semantic import oracles

shares = st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any)


def test_profiles_by_hand() -> None:
    profiles = topic_profiles(np.array([0, 0, 0, 2]), np.array([1, 1, 0, 2]), 3, 2)
    assert profiles.tolist() == [[1 / 3, 2 / 3, 0], [0, 0, 0], [0, 0, 1]]
    weighted = topic_profiles(np.array([0, 0]), np.array([1, 2]), 1, 2, np.array([3, 1]))
    assert weighted.tolist() == [[0, 0.75, 0.25]]


def test_profiles_of_the_named_topics_alone() -> None:
    assert on_topics(np.array([[0.5, 0.25, 0.25], [1, 0, 0], [0, 1, 0]])).tolist() == [[0.5, 0.5], [0, 0], [1, 0]]


def test_divergence_by_hand() -> None:
    before = np.array([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    after = np.array([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5], [0.0, 0.0], [0.0, 0.0]])
    # (1, 0) against (1/2, 1/2): middle (3/4, 1/4)
    third = (math.log2(4 / 3) + 0.5 * math.log2(2 / 3) + 0.5 * math.log2(2)) / 2
    assert divergences(before, after).tolist() == pytest.approx([1, 0, third, 1, 0])
    assert profile_loss(before[:2], after[:2]) == pytest.approx(0.5)
    assert profile_loss(before[:0], after[:0]) == 0


@given(shares, shares)
def test_divergence_is_symmetric_bounded_and_zero_for_equals_only(first: list[int], second: list[int]) -> None:
    a, b = (np.array([given]) / sum(given) for given in (first, second))
    (there,), (back,) = divergences(a, b), divergences(b, a)
    assert there == pytest.approx(back)
    assert 0 <= there <= 1
    assert (there < 1e-12) == np.allclose(a, b)
    assert divergences(a, a)[0] == 0


def test_similarities_are_those_of_the_definition() -> None:
    nouns = wordnet()
    pairs = [("tennis", "badminton"), ("tennis", "asthma"), ("asthma", "asthma"), ("entity", "zebra")]
    left, right = (np.array([nouns.concept(pair[i]) for pair in pairs]) for i in (0, 1))
    wanted = [oracles.similarity(nouns, a, b) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
    assert similarities(nouns, left, right).tolist() == pytest.approx(wanted)
    assert wanted[0] > wanted[1]
    assert closeness(nouns, left[2:3], right[2:3]) == 1


def test_measures_are_declared() -> None:
    measures = (*USER_MEASURES, *POOLED_MEASURES, CLOSENESS, KEPT)
    assert [measure.name for measure in measures] == [
        "profile_loss", "profile_loss_on_topics", "pooled_loss", "pooled_loss_on_topics", "closeness", "kept",
    ]  # fmt: skip
    assert all(measure.meaning and measure.citation for measure in measures)


def people(users: int = 40) -> Profiled:
    """Users with one interest each, so that profiles are far from what the domains alone would give."""
    nouns = wordnet()
    labels = ["asthma", "measles", "psychology", "economics", "water polo", "boxing", "golf", "race", "concert"]
    on_topic = topics_of(nouns, topic_concepts(nouns, FOUR)) > 0
    assert all(on_topic[nouns.concept(label)] for label in labels)
    own = [[nouns.concept(labels[user % len(labels)])] * 90 + [nouns.concept("tennis")] * 10 for user in range(users)]
    return Profiled(np.array(own, np.int32))


def test_the_same_topics_for_domains_and_profiles_lose_nothing_at_all() -> None:
    """The paper's D(q) = P: exactly 0 for every criterion, epsilon and reading; noise on counts loses something."""
    for setting in (each for each in SETTINGS if each.name == "D(q)=P" and each.topics == FOUR):
        found = list(points(people(), settings=[setting], epsilons=[0.1, 10.0], runs=1, randomness=Randomness(seed=1)))
        replaced = [point for point in found if point.criterion != "hbdp"]
        assert len(replaced) == 3 * 2 * 2 * 2
        assert {point.loss for point in replaced} == {0.0}
        assert {point.loss_on_topics for point in replaced} == {0.0}
        noised = [point for point in found if point.criterion == "hbdp"]
        assert len(noised) == 2 * 2
        assert all(point.loss > 0 for point in noised)


def test_setting_a_has_the_papers_shapes_per_query_and_is_flat_per_user() -> None:
    found = list(
        points(people(), settings=SETTINGS[:1], epsilons=[0.1, 1.0, 10.0], runs=2, randomness=Randomness(seed=2))
    )
    loss = {(p.criterion, p.variant, p.reading, p.epsilon): p.loss for p in found}
    assert len(loss) == len(found) == 3 * 2 * 2 * 3 + 6
    for criterion in ("sqc1", "sqc2", "nsqc"):
        flat = [loss[criterion, "paper", "user", epsilon] for epsilon in (0.1, 1.0, 10.0)]
        assert max(flat) - min(flat) < 0.05
        assert loss[criterion, "paper", "query", 10.0] < 0.75 * loss[criterion, "paper", "query", 1.0]
        # Solved for the exact loss, the same budget keeps more.
        assert loss[criterion, "default", "query", 10.0] < loss[criterion, "paper", "query", 10.0]
    at_ten = [loss[criterion, "paper", "query", 10.0] for criterion in ("sqc2", "sqc1", "nsqc")]
    assert at_ten == sorted(at_ten)
    assert loss["hbdp", "default", "user", 1.0] > loss["nsqc", "paper", "user", 1.0]


def test_users_of_a_log_who_ask_most_about_the_topics(tmp_path: Path) -> None:
    rows = [(f"u{user}", f"12:{i:02}:00", query, "", "") for user in range(4) for i, query in enumerate(["asthma", "golf"] * user + ["zzyzx"])]  # noqa: E501  # fmt: skip
    with read(write(tmp_path / "log.tsv", aol(rows))) as log:
        found = profiled_users(log, users=2, queries=5)
    nouns = wordnet()
    asthma, golf = nouns.concept("asthma"), nouns.concept("golf")
    assert found.concepts.tolist() == [[asthma, golf, asthma, golf, asthma]] * 2
    assert found.owners.tolist() == [0] * 5 + [1] * 5
    assert isinstance(SETTINGS[0], Setting)


@dataclass(frozen=True)
class Fewer:
    """Remaining profiles of users when few of their queries share the budget: the purpose of max_queries."""

    epsilon: float
    max_queries: int
    criterion: str
    loss: float
    loss_without_noise: float  # of as many true queries: what sampling alone costs
    closeness: float


def fewer_queries(
    people: Profiled, epsilon: float, bounds: Sequence[int], criteria: Sequence[str], drawing: Randomness
) -> Iterator[Fewer]:
    """Setting A with epsilon for each user, spent on ever more queries."""
    setting, nouns = SETTINGS[0], wordnet()
    topics = topics_of(nouns, topic_concepts(nouns, setting.topics))
    users, count = len(people.concepts), len(setting.topics)
    before = topic_profiles(people.owners, topics[people.concepts.reshape(-1)], users, count)
    for criterion in criteria:
        first = Replacement.of(_method(setting, criterion, "default", "user", epsilon, 1), nouns)
        for bound in bounds:
            ready = first.at(_method(setting, criterion, "default", "user", epsilon, bound))
            # As many queries, evenly spread over a user's history.
            some = people.concepts[:, np.linspace(0, people.concepts.shape[1] - 1, bound).astype(int)]
            owners, lengths = np.repeat(np.arange(users), bound), np.full(users, bound)
            home, place = _placed(ready.domains, some.reshape(-1))
            new = ready.domains.whole(home, ready.draw(owners, home, place, lengths, drawing))
            after, true = (topic_profiles(owners, topics[each], users, count) for each in (new, some.reshape(-1)))
            yield Fewer(
                epsilon, bound, criterion, profile_loss(before, after), profile_loss(before, true),
                closeness(nouns, some.reshape(-1), new),
            )  # fmt: skip


def test_fewer_queries_keep_more_under_one_budget_of_a_user() -> None:
    found = list(fewer_queries(people(), 10.0, [1, 100], ["sqc1"], Randomness(seed=4)))
    one, hundred = found
    assert (one.max_queries, hundred.max_queries) == (1, 100)
    assert one.closeness > hundred.closeness + 0.2
    assert one.loss < hundred.loss
    assert hundred.loss_without_noise == 0
    assert one.loss_without_noise > 0
