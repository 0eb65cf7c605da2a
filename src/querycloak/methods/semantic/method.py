"""Each query is replaced by one of a similar meaning, user by user (proof: semantic.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from querycloak.errors import ParameterError
from querycloak.methods.method import VARIANTS, checked_choice
from querycloak.methods.unprotected import ALWAYS
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import natural, number_above_zero

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.books.ledger import Ledger
    from querycloak.privacy.chance.randomness import Randomness
    from querycloak.releases.release import Release
    from querycloak.words.taxonomy import Taxonomy

CRITERIA = ("sqc1", "sqc2", "nsqc", "hbdp")
BUDGETS = ("user", "query")
TIMES = ("drop", "month", "day", "hour", "keep")
REPEATS = ("draw", "reuse")
WORDNET = "wordnet"
# A user's epsilon beyond this protects nobody, and integer weights could no longer tell candidates apart.
MOST_EPSILON = 40.0
_UNPROTECTED = (*ALWAYS, "who is in the log: neighbours have the same users")
_TIMES_UNPROTECTED = {
    "keep": "the time of every search",
    "hour": "the hour of every search",
    "day": "the day of every search",
    "month": "the month of every search",
}


@dataclass(frozen=True, kw_only=True)
class Semantic:
    """Replace each query by the label of a concept of similar meaning: same users, as many queries for each."""

    name: ClassVar[str] = "semantic"

    epsilon: float | None = None
    criterion: str = "sqc1"
    domain: str = "all"
    topics: str | None = None
    budget_per: str = "user"
    max_queries: int | None = None
    repeats: str = "draw"
    times: str = "drop"
    taxonomy: str = WORDNET
    variant: str = "default"

    def __post_init__(self) -> None:
        for name, value, accepted in (
            ("criterion", self.criterion, CRITERIA),
            ("budget_per", self.budget_per, BUDGETS),
            ("times", self.times, TIMES),
            ("repeats", self.repeats, REPEATS),
            ("variant", self.variant, VARIANTS),
        ):
            checked_choice(name, value, accepted)
        way_out = "give the most that a release may tell about one user, such as 8"
        epsilon = number_above_zero("epsilon", self.epsilon, way_out, most=1000.0)
        object.__setattr__(self, "epsilon", epsilon)
        if self.max_queries is not None:
            natural("max_queries", self.max_queries, "say how many queries of one user are ever released", most=10**6)
        self._check_combinations()
        self._check_texts()

    def _check_combinations(self) -> None:
        if self.criterion == "hbdp":
            self._check_histogram()
        if self.topics is not None and self.criterion != "sqc2":
            raise ParameterError("topics go with criterion sqc2, which keeps replacements within a query's topic")
        if self.max_queries is not None and (self.variant == "paper" or self.repeats == "reuse"):
            raise ParameterError("max_queries goes with the default variant and repeats draw: it counts single queries")
        if self.budget_per == "query" and self._epsilon > MOST_EPSILON:
            raise ParameterError(f"epsilon must be at most {MOST_EPSILON:g} for each query, got {self._epsilon:g}")

    def _check_histogram(self) -> None:
        if self.max_queries is None:
            raise ParameterError("criterion hbdp needs max_queries: noise is scaled to the most queries of one user")
        if self.times != "drop" or self.repeats != "draw" or self.variant != "default" or self.budget_per != "user":
            raise ParameterError("criterion hbdp releases counts: times, repeats, variant, budget_per must be left out")
        if "|" in self.domain or self.domain == "topics":
            raise ParameterError("criterion hbdp needs one domain for all queries, such as abstraction")

    def _check_texts(self) -> None:
        for name, value in (("domain", self.domain), ("topics", self.topics)):
            if value is not None and not all(part.strip() for part in value.split("|")):
                raise ParameterError(f"{name} must name concepts, parted by |; an empty one is among them")
        if self.taxonomy != WORDNET and Path(self.taxonomy).suffix.lower() not in (".csv", ".tsv", ".parquet"):
            raise ParameterError(
                f"taxonomy must be {WORDNET}, or a .csv, .tsv or .parquet file with the columns id, labels, parents; "
                f"it is {self.taxonomy!r}"
            )

    @property
    def _epsilon(self) -> float:
        return float(self.epsilon or 0.0)

    @property
    def _rows(self) -> str:
        if self.criterion == "hbdp":
            return "noised"
        return "rebuilt" if self.variant == "paper" else "replaced"

    @property
    def topic_names(self) -> str:
        """The topics within which sqc2 keeps replacements; those of WordNet unless another taxonomy is given."""
        return self.topics or ("19" if self.taxonomy == WORDNET else "children")

    def parameters(self) -> dict[str, Any]:
        """What was given; exponents follow from it and from the public taxonomy."""
        return {
            "epsilon": self.epsilon,
            "criterion": self.criterion,
            "domain": self.domain,
            "topics": self.topic_names if self.criterion == "sqc2" else None,
            "budget_per": self.budget_per,
            "max_queries": self.max_queries,
            "repeats": self.repeats,
            "times": self.times,
            "taxonomy": self.taxonomy if self.taxonomy == WORDNET else Path(self.taxonomy).name,
        }

    def claimed(self) -> Guarantee | None:
        """What Sanchez et al. say, in the paper variant."""
        if self.variant != "paper":
            return None
        return Guarantee(
            kind="pure-dp",
            unit=self.budget_per,
            neighbours="replace-query",
            epsilon=self.epsilon,
            unprotected=("the topic of each query",) if self._several_domains else (),
            because="exponential mechanism over concepts, epsilon shared out over a user's queries (Sanchez et al.)",
        )

    def proven(self) -> Guarantee:
        """What semantic.md proves."""
        return Guarantee(
            kind="pure-dp" if self.variant == "default" else "sampling-only",
            unit=self.budget_per,
            neighbours="replace-query",
            epsilon=self.epsilon,
            unprotected=self._unprotected(),
            because=self._because(),
        )

    @property
    def _several_domains(self) -> bool:
        return self.domain == "topics" or "|" in self.domain

    def _unprotected(self) -> tuple[str, ...]:
        found = [*_UNPROTECTED]
        if self.criterion != "hbdp":
            found.append("how many queries each user has" + (f", up to {self.max_queries}" if self.max_queries else ""))
        if self._several_domains:
            found.append("the domain of each query: its topic, or that it has none of these")
        if self.repeats == "reuse":
            found.append("which queries of a user were about one concept")
        if self.times != "drop":
            found.append(_TIMES_UNPROTECTED[self.times])
        if self.budget_per == "query":
            found.append("what a user's queries tell together: a user of m queries has m times this epsilon")
        if self.variant == "paper":
            found += [
                "every word of a query but the concepts themselves: it comes out as typed, names and numbers too",
                "plural forms, how many concepts a query has, and which queries have none",
            ]
        return tuple(found)

    def _because(self) -> str:
        if self.criterion == "hbdp":
            return (
                f"replacing a user's queries moves counts by twice {self.max_queries} in all, noise is scaled to that "
                "(semantic.md)"
            )
        each = "each query is drawn with a loss of at most epsilon"
        if self.budget_per == "user":
            share = f"1/{self.max_queries}" if self.max_queries else "an equal share"
            each = f"each of a user's queries is drawn with a loss of at most {share} of epsilon"
        return f"{each}, by integer weights whose exact loss is computed from the public taxonomy (semantic.md)"

    def read_taxonomy(self) -> Taxonomy:
        """WordNet's nouns, or the table that was named."""
        if self.taxonomy == WORDNET:
            from querycloak.words.wordnet import wordnet

            return wordnet()
        from querycloak.words.taxonomy_table import read_taxonomy

        return read_taxonomy(self.taxonomy)

    def check_named(self) -> None:
        """Refuse a taxonomy, a domain or topics that are not there; all of them are public, no log is needed."""
        from querycloak.methods.semantic.domain_names import ALL, check_domain
        from querycloak.words.topics import topic_concepts

        if self.taxonomy == WORDNET and self.domain == ALL and self.topics is None:
            return
        taxonomy = self.read_taxonomy()
        check_domain(taxonomy, self.domain)
        if self.criterion == "sqc2":
            topic_concepts(taxonomy, self.topic_names)

    def prepaid(self, ledger: Ledger, population: str) -> bool:
        """Whether an earlier release has paid for this one: same population, guarantee and max_queries."""
        if not self.keeps_spending:
            return False
        from querycloak.privacy.books.campaigns import Spending

        return Spending(ledger).has_campaign(population, self.proven(), int(self.max_queries or 0))

    @property
    def keeps_spending(self) -> bool:
        """Whether what each user has spent is kept, so that later releases may go on."""
        return self.max_queries is not None and self.budget_per == "user" and self.criterion != "hbdp"

    def release(
        self,
        log: SearchLog,
        *,
        ledger: Ledger | None = None,
        population: str | None = None,
        randomness: Randomness | None = None,
    ) -> Release:
        """Look at the taxonomy, count, charge, draw."""
        from querycloak.methods.releasing import Run
        from querycloak.methods.semantic.replacement import Replacement
        from querycloak.methods.semantic.searches import Histories, staged_searches

        run = Run.begin(self, log, ledger, population, randomness)
        replacement = Replacement.of(self, self.read_taxonomy())
        searches = staged_searches(log)
        log.checked()
        if self.criterion == "hbdp":
            from querycloak.methods.semantic.hbdp import check_size

            users = log.engine.fetch(searches.agg(users=searches.user.nunique()))["users"][0].as_py()
            check_size(replacement.domains.domains[0], users)
        histories = Histories.of(self, log, searches, ledger, population, run.drawing)
        return run.finish(
            lambda: {"log": replacement.table(histories.pulled(replacement.concepts_of), run.drawing)},
            counts="one-draw" if self.criterion == "hbdp" else "none",
            rows=self._rows,
            paid=histories.paid,
        )
