"""Choices without the log: candidates and criterion by public figures, and the loss of one draw if a user has several.

Figures of WordNet are shipped; those of another taxonomy are computed from its table.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from querycloak.errors import ParameterError
from querycloak.text.taxonomy import Taxonomy

if TYPE_CHECKING:
    from querycloak.methods.semantic.domains import Domain
    from querycloak.methods.semantic.method import Semantic
    from querycloak.methods.semantic.totals import Floats
    from querycloak.methods.semantic.weights import EqualityWeights, SemanticWeights


CRITERIA = ("sqc1", "nsqc")
"""Criteria among which figures can choose."""
WORDNET, AUTO, WHOLE = "wordnet", "auto", "all"
READABLE = 0.1
"""Predicted total variation up to which totals can be read."""
Choice = tuple[str | None, str]
ReadTaxonomy = Callable[[], Taxonomy]


class Chosen(NamedTuple):
    """Candidates and criterion of a draw; a choice that was left to public figures is made."""

    domain: str
    candidates: str | None
    criterion: str


def check_choice(method: Semantic) -> None:
    """Refuse candidates, a domain or a criterion beside an option that chooses them."""
    if method.domain == AUTO and (method.candidates is not None or method.criterion not in (None, "sqc1")):
        raise ParameterError.of("{domain:auto} chooses {candidates} and {criterion}: leave them out")
    if wanted_draws(method) is not None and (method.domain not in (None, WHOLE) or method.criterion is not None):
        raise ParameterError.of(
            "{candidates:totals=N} chooses how many concepts and the {criterion}: leave {domain} out, too"
        )


def wanted_draws(method: Semantic) -> int | None:
    """Planned number of draws behind totals; candidates are chosen by it."""
    if method.candidates is None:
        return None
    from querycloak.methods.semantic.domains import TOTALS, parse_candidates

    kind, number = parse_candidates(method.candidates)
    return number if kind == TOTALS else None


def chosen_by(method: Semantic) -> Chosen:
    """Domain, candidates and criterion: as given, or by public figures."""
    taxonomy = None if method.taxonomy == WORDNET else method.read_taxonomy
    draws = wanted_draws(method)
    if draws is not None:
        return Chosen(WHOLE, *most_countable(method.loss, draws, taxonomy))
    if method.domain == AUTO:
        return Chosen(WHOLE, *most_similar(method.loss, taxonomy))
    if method.domain is None and method.criterion is None and method.candidates is None and method.chooses:
        # Hardly less similar than the best of all criteria at any loss, and its totals are the most exact.
        return Chosen(WHOLE, *most_similar(method.loss, taxonomy, ("nsqc",)))
    return Chosen(method.domain or WHOLE, method.candidates, method.criterion or "sqc1")


def most_similar(loss: float, taxonomy: ReadTaxonomy | None, criteria: Collection[str] = CRITERIA) -> Choice:
    """The candidates and the criterion whose draws are most similar to what was asked, at this loss.

    taxonomy: None for WordNet.
    """
    if taxonomy is None:
        return best_choice(loss, criteria)
    from querycloak.methods.semantic.weights import expected_similarities

    similar: dict[Choice, float] = {}
    for name, domain in _domains(taxonomy()):
        for criterion, weights in _weights(domain, criteria):
            (similarity,) = expected_similarities(domain, criterion, weights.exponents([loss]))
            similar[name, criterion] = round(similarity, 3)
    return max(similar, key=lambda each: similar[each])


class _Countable(NamedTuple):
    """A choice, its number of candidates, and the predicted total variation of the totals of one draw."""

    choice: Choice
    number: int
    distance: float


def most_countable(loss: float, draws: int, taxonomy: ReadTaxonomy | None) -> Choice:
    """The most candidates with totals predicted to be readable from this number of draws; else the fewest."""
    listed = list(_of_wordnet(loss) if taxonomy is None else _of_table(taxonomy(), loss))
    readable = [each for each in listed if each.distance / math.sqrt(draws) <= READABLE]
    number = max((each.number for each in readable), default=min(each.number for each in listed))
    best = min((each for each in listed if each.number == number), key=lambda each: each.distance)
    return best.choice


def _of_wordnet(loss: float) -> Iterator[_Countable]:

    for (name, criterion), distance in predicted_distances(loss).items():
        yield _Countable((name, criterion), int(name.partition("=")[2]), distance)


def _of_table(taxonomy: Taxonomy, loss: float) -> Iterator[_Countable]:
    from querycloak.methods.semantic.totals import MOST_CANDIDATES, DrawChannel, predicted_distance

    for name, domain in _domains(taxonomy):
        if len(domain.taxonomy) > MOST_CANDIDATES:
            continue
        for criterion, weights in _weights(domain, CRITERIA):
            channel = DrawChannel.of(weights, weights.exponents([loss])[0])
            distance = predicted_distance(channel, usual_shares(domain))
            yield _Countable((name, criterion), len(domain.taxonomy), distance)


def usual_shares(domain: Domain) -> Floats:
    """Share of each candidate in all uses of concepts; all concepts alike where no uses are known."""
    import numpy as np

    from querycloak.methods.semantic.domains import own_uses

    uses = own_uses(domain.finer)
    weights = uses if uses.any() else np.ones_like(uses)
    counted = np.bincount(domain.place_of, weights, minlength=len(domain.taxonomy))
    return np.asarray(counted / counted.sum())


def _domains(taxonomy: Taxonomy) -> Iterator[tuple[str | None, Domain]]:
    """The whole taxonomy, and cut at every depth."""
    import numpy as np

    from querycloak.methods.semantic.domains import DEPTH, Domain

    every = np.arange(len(taxonomy), dtype=np.int32)
    for name in (None, *(f"{DEPTH}={depth}" for depth in range(1, int(taxonomy.depths.max())))):
        yield name, Domain.of(taxonomy, every, name)


def _weights(domain: Domain, criteria: Collection[str]) -> Iterator[tuple[str, SemanticWeights | EqualityWeights]]:
    from querycloak.methods.semantic.weights import EqualityWeights, SemanticWeights

    for criterion in criteria:
        yield criterion, (EqualityWeights if criterion == "nsqc" else SemanticWeights)(domain.taxonomy)


MOST_LOSS = 40.0
"""Largest loss of one draw: integer weights distinguish candidates no further."""


@lru_cache(maxsize=256)
def share_of(epsilon: float, delta: float | None, draws: int) -> float:
    """The loss of each of this number of draws, all of which together keep the budget; rounded down."""
    equal = math.nextafter(epsilon / draws, 0.0)
    if delta is None or draws == 1 or equal >= MOST_LOSS:
        return min(equal, MOST_LOSS)
    from querycloak.privacy.accounting.privacy_loss import Losses
    from querycloak.privacy.calibration.bisection import bisected

    def exceeds(share: float) -> bool:
        return (Losses.of_guarantee(share, 0.0) * draws).delta_at(epsilon) > delta

    most = min(epsilon, MOST_LOSS)
    if not exceeds(most):
        return most
    return max(equal, bisected(exceeds, equal, most, precision=1e-4)[0])


FILE = "public_figures.json"
"""Written by `scripts/make_semantic_figures.py`; it is about the public taxonomy alone, and a digest says which."""


@dataclass(frozen=True)
class Certified:
    """Solution of a domain: the bound of claim 3, and exponents whose exact losses were computed (claim 2)."""

    slope: float
    excess: tuple[float, ...]
    least_similarity: float
    exact: tuple[tuple[float, float], ...]
    """Losses in ascending order, each with an exponent whose exact loss does not exceed it."""

    def exponent_within(self, loss: float) -> float:
        """The largest exponent that is known to keep within this loss; 0 if none is."""
        return max((exponent for known, exponent in self.exact if known <= loss), default=0.0)


@cache
def figures() -> dict[str, Any]:
    """Content of the file."""
    read: dict[str, Any] = json.loads((files("querycloak.methods.semantic") / FILE).read_text("utf-8"))
    return read


def certified_for(taxonomy: Taxonomy, criterion: str) -> Certified | None:
    """Solution for this whole taxonomy and this criterion; None if there is none."""
    certified = figures()["certified"].get(criterion)
    if certified is None or len(taxonomy) != figures()["concepts"] or digest_of(taxonomy) != figures()["digest"]:
        return None
    exact = tuple((loss, exponent) for loss, exponent in certified["exact"])
    return Certified(certified["slope"], tuple(certified["excess"]), certified["least_similarity"], exact)


def digest_of(taxonomy: Taxonomy) -> str:
    """A digest of the parents of all concepts: exponents depend on nothing else."""
    parents = taxonomy.parents_of
    content = parents.starts.astype("<i8").tobytes() + parents.values.astype("<i4").tobytes()
    return hashlib.sha256(content).hexdigest()


def similarity_of(candidates: str | None, criterion: str, loss: float) -> float | None:
    """Mean similarity of drawn to asked concepts, interpolated between computed figures; None if unknown."""
    similarities = figures()["similarity"].get(candidates or WHOLE, {}).get(criterion)
    if similarities is None:
        return None
    losses = np.log(figures()["losses"])
    return round(float(np.interp(np.log(loss), losses, similarities)), 3)


def blind_similarity(candidates: str | None) -> float | None:
    """The mean similarity of a draw that ignores its input; None for candidates without figures."""
    similarity = figures()["blind"].get(candidates or WHOLE)
    return None if similarity is None else round(float(similarity), 3)


def best_choice(loss: float, criteria: Collection[str] = CRITERIA) -> tuple[str | None, str]:
    """The candidates and the criterion with the highest similarity of drawn to asked concepts, at this loss."""
    known = figures()["similarity"]
    tried = [(candidates, criterion) for candidates, by in known.items() for criterion in by if criterion in criteria]
    candidates, criterion = max(tried, key=lambda each: similarity_of(each[0], each[1], loss) or 0.0)
    return (None if candidates == WHOLE else candidates), criterion


def predicted_distances(loss: float) -> dict[tuple[str, str], float]:
    """Total variation of the totals of one draw, by candidates and criterion, at this loss."""
    losses = np.log(figures()["losses"])
    return {
        (name, criterion): float(np.exp(np.interp(np.log(loss), losses, np.log(distances))))
        for name, by in figures()["totals"].items()
        for criterion, distances in by.items()
    }
