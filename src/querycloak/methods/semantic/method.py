"""Replace each query by one of similar meaning, user by user (proof: semantic.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from querycloak.errors import ParameterError
from querycloak.methods.method import Counted, Method
from querycloak.methods.option import option
from querycloak.methods.semantic.choice import AUTO, WORDNET, Chosen, check_choice, chosen_by
from querycloak.methods.unprotected import ALWAYS
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import natural, number_above_zero, refuse, share
from querycloak.releases.row_kinds import RowKind
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.semantic.replacement import Replacement
    from querycloak.privacy.calibration.accuracy import TableAccuracy
    from querycloak.text.taxonomy import Taxonomy

# An epsilon for each query beyond this protects nobody, and integer weights could no longer tell candidates apart.
MOST_EPSILON = 40.0
_UNPROTECTED = (*ALWAYS, "who is in the log: neighbours have the same users")
_LANGUAGE_UNPROTECTED = (
    "that WordNet has a word of the first search for at least one user in three: otherwise the log is refused"
)
_TIMES_UNPROTECTED = {
    "keep": "the time of every search",
    "hour": "the hour of every search",
    "day": "the day of every search",
    "month": "the month of every search",
}
ONE_DOMAIN = Sentence("{candidates} goes with {variant:default} and one {domain}")
SINGLE_QUERIES = Sentence("{max_queries} goes with {variant:default} and {repeats:draw}: it counts single queries")
NOISY_COUNTS = Sentence("{criterion:hbdp} releases counts: leave {times}, {repeats}, {variant} and {budget_per} out")


@dataclass(frozen=True, kw_only=True)
class Semantic(Method):
    """Replace each query by the label of a concept of similar meaning; users and their numbers of queries stay."""

    name = "semantic"
    summary = "Each query replaced by a similar one."

    epsilon: float | None = option(help="Budget: epsilon, for each user or for each query (see budget per).")
    delta: float | None = option(
        help="Budget: delta, 0 if not given. With a delta, each of several queries of a user may have a larger share "
        "of epsilon."
    )
    criterion: Literal["sqc1", "sqc2", "nsqc", "hbdp"] | None = option(
        help="What makes a replacement good: similarity (sqc1), the same topic first (sqc2), only the same concept "
        "(nsqc), or noisy counts, a baseline (hbdp). If not given: nsqc, sqc1 beside a domain or candidates, or "
        "chosen by auto."
    )
    domain: str | None = option(
        help="The concepts to draw from: all, a label such as abstraction, or label#sense. Several labels separated by "
        "|, or topics (four of WordNet), keep the topic of each query. auto: the candidates and the criterion whose "
        "draws are most similar to what was asked, by public figures; no log is needed for that. If not given: the "
        "candidates that auto takes with nsqc, or all beside a criterion or candidates.",
    )
    candidates: str | None = option(
        help="Fewer concepts to draw from, so that the right one is drawn more often: depth=N cuts the taxonomy at a "
        "depth, usual=N keeps the N concepts that WordNet's tagged text uses most, totals=N as many as N draws can "
        "count (N: about users x max queries). If not given: all of the domain, or chosen by auto."
    )
    topics: str | None = option(help="For sqc2: 19 (if not given), 4, children of the root, or labels separated by |.")
    budget_per: Literal["user", "query"] = option(
        "user", help="user: epsilon is for all queries of a user. query: for each query, which is weaker."
    )
    max_queries: int | None = option(
        help="The most queries of one user, in all releases together. Each gets an equal share of epsilon. It must be "
        "given if epsilon is for a user, except with reuse and in the paper variant."
    )
    repeats: Literal["draw", "reuse"] = option(
        "draw",
        help="draw: a new draw for every query. reuse: one draw for all queries of a user about the same concept.",
    )
    times: Literal["drop", "month", "day", "hour", "keep"] = option(
        "drop", help="How exact released times are. Released times are unprotected; drop releases none."
    )
    taxonomy: str = option(WORDNET, help="wordnet, or a table of your own: id, labels, parents.", names_file=True)
    any_language: bool = option(
        False,
        help="Also take a log in a language that WordNet does not know; it is refused otherwise. Its searches then "
        "come out as draws that have nothing to do with what was asked.",
    )
    selection_share: float | None = option(
        help="For variant log: the part of epsilon that selects candidates; 0.1 if not given."
    )
    variant: Literal["default", "paper", "log"] = option(
        "default",
        help="paper: as published, to compare with. log: queries that many users asked are the candidates, not "
        "concepts; a part of the budget selects them.",
    )
    budget: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check_choices()
        way_out = "give the most that a release may tell about one user, such as 8"
        epsilon = number_above_zero("epsilon", self.epsilon, way_out, most=1000.0)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "budget", epsilon)
        if self.max_queries is not None:
            natural("max_queries", self.max_queries, "say how many queries of one user are ever released", most=10**6)
        if self.delta is not None:
            object.__setattr__(self, "delta", share("delta", self.delta, "give a number far below 1/users"))
        self._check_combinations()
        self._check_texts()
        self._check_bounded()
        check_choice(self)

    def _check_bounded(self) -> None:
        if self.max_queries is None and self.shared_out:
            raise ParameterError.of(
                "{max_queries} must be given, such as {max_queries:1}: epsilon is divided among a user's "
                "queries, and over many a draw says no more than chance does; or take {budget_per:query}, whose "
                "epsilon is for one query"
            )

    @property
    def chooses(self) -> bool:
        """True if candidates and criterion are left to public figures unless they are given."""
        return True

    @cached_property
    def chosen(self) -> Chosen:
        """The domain, its candidates and the criterion: as given, or by public figures; no log is needed."""
        return chosen_by(self)

    @property
    def one_loss(self) -> bool:
        """True if every draw of the release has the same law."""
        return self.repeats == "draw" and (self.max_queries is not None or self.budget_per == "query")

    @property
    def loss(self) -> float:
        """The most that one draw may lose; without a bound on queries, that of a user of one."""
        from querycloak.methods.semantic.choice import MOST_LOSS, share_of

        if self.budget_per == "query":
            return min(self.budget, MOST_LOSS)
        queries = 1 if self.max_queries is None else self.max_queries
        return share_of(self.budget, self.delta, queries)

    @property
    def similarity(self) -> tuple[float, float] | None:
        """Expected similarity of draws and of blind draws to the query; None where it was not computed."""
        from querycloak.methods.semantic.choice import blind_similarity, similarity_of

        counted = self.max_queries is not None or self.budget_per == "query"
        if self.chosen.domain != "all" or self.taxonomy != WORDNET or not counted:
            return None
        drawn = similarity_of(self.chosen.candidates, self.chosen.criterion, self.loss)
        blind = blind_similarity(self.chosen.candidates)
        return None if drawn is None or blind is None else (drawn, blind)

    def _check_combinations(self) -> None:
        if self.criterion == "hbdp":
            self.check_histogram()
        if self.topics is not None and self.criterion != "sqc2":
            raise ParameterError.of(
                "{topics} goes with {criterion:sqc2}, which keeps replacements within a query's topic"
            )
        if self.delta is not None and (self.max_queries is None or not self.shared_out):
            raise ParameterError.of(
                "{delta} goes with {max_queries}, {variant:default} and {repeats:draw}: it adds up draws"
            )
        if self.candidates is not None:
            from querycloak.methods.semantic.domains import parse_candidates

            parse_candidates(self.candidates)
        if self.selection_share is not None and self.variant != "log":
            raise ParameterError.of("{selection_share} goes with {variant:log}, which selects queries")
        self.check_bounded_draws()
        if self.budget_per == "query" and self.budget > MOST_EPSILON:
            refuse("epsilon", f"at most {MOST_EPSILON:g} for each query", self.budget, "more protects nobody")

    def check_bounded_draws(self) -> None:
        """Refuse fewer candidates with several domains, and a bound on queries whose draws are used again."""
        if self.candidates is not None and self.several_domains:
            raise ParameterError(ONE_DOMAIN)
        if self.max_queries is not None and self.repeats == "reuse":
            raise ParameterError(SINGLE_QUERIES)

    @property
    def shared_out(self) -> bool:
        """True if a user's epsilon is divided among single queries."""
        return self.repeats == "draw" and self.criterion != "hbdp" and self.budget_per == "user"

    def check_histogram(self) -> None:
        """Refuse options that do not fit noisy counts of concepts."""
        if self.max_queries is None:
            raise ParameterError.of(
                "{criterion:hbdp} needs {max_queries}: noise is scaled to the most queries of one user"
            )
        if self.times != "drop" or self.repeats != "draw" or self.budget_per != "user":
            raise ParameterError(NOISY_COUNTS)
        if self.several_domains or self.domain == AUTO:
            raise ParameterError.of("{criterion:hbdp} needs one domain for all queries, such as {domain:abstraction}")

    def _check_texts(self) -> None:
        for name, value in (("domain", self.domain), ("topics", self.topics)):
            if value is not None and not all(part.strip() for part in value.split("|")):
                refuse(name, "names of concepts, separated by |", value, "leave the empty one out")
        if self.any_language and self.taxonomy != WORDNET:
            raise ParameterError.of("{any_language} is about WordNet: leave it out with another {taxonomy}")
        if self.taxonomy != WORDNET and Path(self.taxonomy).suffix.lower() not in (".csv", ".tsv", ".parquet"):
            rule = f"{WORDNET}, or a .csv, .tsv or .parquet file"
            refuse("taxonomy", rule, self.taxonomy, "give a table with the columns id, labels, parents")

    @property
    def rows(self) -> RowKind:
        """Content of a row of the table `log`."""
        return RowKind.NOISED if self.criterion == "hbdp" else RowKind.REPLACED

    @property
    def topic_names(self) -> str:
        """The topics within which sqc2 keeps replacements; those of WordNet unless another taxonomy is given."""
        return self.topics or ("19" if self.taxonomy == WORDNET else "children")

    def parameters(self) -> dict[str, Any]:
        """Given options; exponents follow from them and from the public taxonomy."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "criterion": self.chosen.criterion,
            "domain": self.chosen.domain,
            "candidates": self.chosen.candidates,
            "expected_similarity": self.similarity[0] if self.similarity else None,
            "blind_similarity": self.similarity[1] if self.similarity else None,
            "topics": self.topic_names if self.criterion == "sqc2" else None,
            "budget_per": self.budget_per,
            "max_queries": self.max_queries,
            "repeats": self.repeats,
            "times": self.times,
            "taxonomy": self.taxonomy if self.taxonomy == WORDNET else Path(self.taxonomy).name,
            "any_language": self.any_language or None,
        }

    def proven(self) -> Guarantee:
        """Guarantee that semantic.md proves."""
        return Guarantee(
            kind="pure-dp" if self.delta is None else "approximate-dp",
            unit=self.budget_per,
            neighbours="replace-query",
            epsilon=self.epsilon,
            delta=self.delta,
            unprotected=self.unprotected(),
            because=self._because(),
        )

    @property
    def several_domains(self) -> bool:
        """True if the domain of a query comes out."""
        return self.domain is not None and (self.domain == "topics" or "|" in self.domain)

    def unprotected(self) -> tuple[str, ...]:
        """Everything that a release reveals and no draw covers."""
        listed = [*_UNPROTECTED]
        if self.asks_language:
            listed.append(_LANGUAGE_UNPROTECTED)
        if self.criterion != "hbdp":
            listed.append(
                "how many queries each user has" + (f", up to {self.max_queries}" if self.max_queries else "")
            )
        if self.several_domains:
            listed.append("the domain of each query: its topic, or that it has none of these")
        if self.repeats == "reuse":
            listed.append("which queries of a user were about one concept")
        if self.times != "drop":
            listed.append(_TIMES_UNPROTECTED[self.times])
        if self.budget_per == "query":
            listed.append("what a user's queries tell together: a user with m queries has m times this epsilon")
        return tuple(listed)

    def _because(self) -> str:
        if self.criterion == "hbdp":
            return (
                f"replacing a user's queries moves counts by twice {self.max_queries} in all, noise is scaled to that "
                "(semantic.md)"
            )
        each = "each query is drawn with a loss of at most epsilon"
        if self.delta is not None:
            each = (
                f"each of a user's {self.max_queries} queries is drawn with a loss of at most {self.loss:.4g}, and by "
                "their privacy-loss distributions all of them keep (epsilon, delta)"
            )
        elif self.budget_per == "user":
            part = "an equal share of epsilon" if self.max_queries is None else f"1/{self.max_queries} of epsilon"
            part = "epsilon" if self.max_queries == 1 else part
            subject = "each concept in a user's queries" if self.variant == "paper" else "each of a user's queries"
            if self.repeats == "reuse":
                subject = "each concept of a user, once for all queries about it,"
            each = f"{subject} is drawn with a loss of at most {part}"
        return f"{each}, by integer weights whose exact loss is computed from the public taxonomy (semantic.md)"

    @property
    def asks_language(self) -> bool:
        """True if a log is refused if WordNet does not have its words."""
        return self.taxonomy == WORDNET and not self.any_language

    def read_taxonomy(self) -> Taxonomy:
        """WordNet's nouns, or the table that was named."""
        if self.taxonomy == WORDNET:
            from querycloak.text.wordnet import wordnet

            return wordnet()
        from querycloak.text.taxonomy_table import read_taxonomy

        return read_taxonomy(self.taxonomy)

    def check_inputs(self) -> None:
        """Refuse a taxonomy, a domain or topics that are not there; all of them are public, no log is needed."""
        from querycloak.methods.semantic.domains import ALL, check_domain
        from querycloak.text.taxonomy import topic_concepts

        if self.taxonomy == WORDNET and self.chosen.domain == ALL and self.topics is None:
            return
        taxonomy = self.read_taxonomy()
        check_domain(taxonomy, self.chosen.domain)
        if self.criterion == "sqc2":
            topic_concepts(taxonomy, self.topic_names)

    @property
    def campaign(self) -> int | None:
        """The bound on queries: one charge pays for that many of each user over all releases, or None."""
        kept = self.budget_per == "user" and self.criterion != "hbdp"
        return self.max_queries if kept else None

    def same_campaign(self, parameters: Mapping[str, Any]) -> bool:
        """True if it leaves the same unprotected; the loss of each draw follows from the guarantee's numbers."""
        return _reveals(parameters) == _reveals(self.parameters())

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Rows need no number of users, as every search is drawn as a concept; only those of hbdp have counts."""
        from querycloak.methods.counted_users import NO_COUNT
        from querycloak.privacy.calibration.accuracy import TableAccuracy

        if self.criterion == "hbdp":
            from querycloak.methods.semantic.hbdp import accuracy_of_counts

            return {"log": accuracy_of_counts(self)}
        notes = [self.row_note]
        if self.similarity is not None:
            drawn, blind = self.similarity
            notes.append(
                f"What is drawn has a mean similarity of {drawn:.2f} to what was asked, where 1 is the same and a "
                f"blind draw has {blind:.2f}: computed from WordNet, over all uses of concepts in its tagged text."
            )
        return {"log": TableAccuracy(NO_COUNT, notes=tuple(notes))}

    @property
    def row_note(self) -> str:
        """Worth of a row's text."""
        return "The text of a row was drawn at random: look at how often topics occur, never at a single row."

    @property
    def mechanism(self) -> type[Replacement]:
        """The class that draws; it needs the taxonomy."""
        from querycloak.methods.semantic.replacement import Replacement

        return Replacement

    def count(self, log: SearchLog) -> Counted:
        """Read the taxonomy, and count the searches."""
        from querycloak.methods.semantic.searches import Histories, check_language, staged_searches

        replacement = self.mechanism.of(self, self.read_taxonomy())
        searches = staged_searches(log)
        log.checked(guaranteed=True)
        if self.asks_language:
            check_language(log.engine, searches, replacement.domains.vocabulary.concepts)
        if self.criterion == "hbdp":
            from querycloak.methods.semantic.hbdp import check_size

            users = log.engine.fetch(searches.agg(users=searches.user.nunique()))["users"][0].as_py()
            check_size(replacement.domains.domains[0], users)
        return Histories(log.engine, searches, self.max_queries, replacement)


def _reveals(parameters: Mapping[str, Any]) -> tuple[object, ...]:
    """Facts that a release with these parameters reveals beside its draws, in the order of `Semantic.unprotected`."""
    domain = str(parameters.get("domain"))
    asks_language = parameters.get("taxonomy", WORDNET) == WORDNET and not parameters.get("any_language")
    several_domains = domain == "topics" or "|" in domain
    return asks_language, several_domains, parameters.get("repeats"), parameters.get("times")
