"""Records with common words alone, under session ids, by the European rules (what that means: eu_records.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from querycloak.errors import ParameterError
from querycloak.logs.choices import PERIODS
from querycloak.methods.eu_records.european_rules import NUMBERS, RULES, EuropeanRule, Kept, Times
from querycloak.methods.forcing_accounts import accounts_of_a_rule
from querycloak.methods.keys.attributes import grouping_of
from querycloak.methods.method import Counted, CountedRows, Drawn, Method
from querycloak.methods.option import option
from querycloak.methods.unprotected import SEARCHES_OF_EACH, TWO_RELEASES, WITHOUT_GUARANTEE
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import number_above_zero, one_of, refuse, whole
from querycloak.releases.row_kinds import RowKind
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.calibration.accuracy import TableAccuracy

MEANS = (
    "Syntactic means: a rule says what rows look like, and nothing bounds what they tell about a person; there is no "
    "epsilon"
)
_UNPROTECTED = (
    *WITHOUT_GUARANTEE,
    "which searches belong to one session, and their order: together they can name somebody, although every word is "
    "common",
    "what common words spell: a name, an address or a number whose every word enough people used comes out, though one "
    "person alone asked it",
    "urls that one person alone saw or clicked",
    "that a session belongs to a person whose visit is known",
    "which sessions belong to one person: words, places and days that recur link them",
    SEARCHES_OF_EACH,
    "people named in queries: the rule is about those who search",
    "exact numbers of users: somebody who knows all users of a word except one learns whether that one is among them",
    TWO_RELEASES,
)
_LEAST = {
    "min_term_users": 1,
    "max_words": 1,
    "max_digits": 0,
    "min_group_users": 1,
    "mini_session": 0,
    "latency_days": 0,
}


@dataclass(frozen=True, kw_only=True)
class EuRecords(Method):
    """Release records of searches by a European rule for search data; a rule, no guarantee."""

    name = "eu-records"
    summary = "Records under a European rule for search data; no guarantee."

    preset: Literal["dma-2026", "ddg-2026"] | None = option(
        help="The rule: dma-2026, the Commission's decision; ddg-2026, a rival's proposal. It sets the numbers below."
    )
    min_term_users: int | None = option(help="A query is left out if fewer users used one of its words.")
    max_words: int | None = option(help="A query of more words is left out.")
    max_digits: int | None = option(help="A query with more digits, or with an @, is left out.")
    min_group_users: int | None = option(
        help="Attributes are generalised until every combination of values has this many users, else left out."
    )
    mini_session: int | None = option(help="The most searches that share a session id; 0: no limit.")
    gap_minutes: float | None = option(help="The pause that ends a visit.")
    linked: Kept | None = option(help="Searches that share a session id: those of a visit, of a day, or all of a user.")
    times: Times | None = option(help="Precision of times: the day itself, or the first day of its week or month.")
    latency_days: int | None = option(help="Rows younger than this, on the day of the release, are left out.")
    by: str | None = option(
        help="Attributes of the log that are released, with commas, such as country,device. Those that the log is "
        "read with if not given."
    )
    rule: EuropeanRule = field(init=False, repr=False)
    numbers: Mapping[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check_choices()
        if self.preset is None:
            refuse("preset", f"the name of a rule: {', '.join(RULES)}", None, "every number of a rule is an option")
        object.__setattr__(self, "rule", RULES[self.preset])
        by = grouping_of(self.by, None).by
        object.__setattr__(self, "by", ",".join(by) or None)
        wrong = [name for name in by if name in (*PERIODS, "session")]
        if wrong:
            raise ParameterError.of("{by} has {name!r}, which is a column of its own", name=wrong[0])
        given = {name: vars(self)[name] for name in NUMBERS if vars(self)[name] is not None}
        numbers = {**self.rule.numbers, **given}
        for name, least in _LEAST.items():
            numbers[name] = whole(name, numbers[name], "leave it out for the number of the rule", least=least)
        number_above_zero("gap_minutes", numbers["gap_minutes"], "give the pause that ends a visit, such as 30")
        one_of("linked", numbers["linked"], ("visit", "day", "user"))
        object.__setattr__(self, "numbers", {name: numbers[name] for name in NUMBERS})

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes that a log must be read with."""
        return grouping_of(self.by, None).attributes

    def parameters(self) -> dict[str, Any]:
        """All numbers, and which of them are quoted, assumed or the owner's."""
        chosen = [name for name in NUMBERS if self.numbers[name] != self.rule.numbers[name]]
        return {
            "preset": self.preset,
            **self.numbers,
            **({} if self.by is None else {"by": self.by}),
            "quoted": {name: source for name, source in self.rule.quoted.items() if name not in chosen},
            "assumed": [name for name in self.rule.assumed if name not in chosen],
            "chosen": chosen,
        }

    def proven(self) -> Guarantee:
        """A rule about the output; no bound on what it tells."""
        return Guarantee(
            kind="syntactic",
            unit="user",
            neighbours=None,
            unprotected=(
                *_UNPROTECTED,
                accounts_of_a_rule(self.numbers["min_term_users"], "text"),
                "what one account asks in common words: it comes out",
            ),
            because=f"{MEANS}. Queries with a word of fewer than {self.numbers['min_term_users']:,} users are left "
            f"out, and attributes are {self._attributes} (eu_records.md)",
        )

    @property
    def _attributes(self) -> str:
        least = self.numbers["min_group_users"]
        return (
            f"generalised or left out for groups of fewer than {least:,} users" if least > 1 else "released as they are"
        )

    def cautions(self) -> list[str | Sentence]:
        """The numbers of the rule that are not public, then those that a source quotes."""
        parameters = self.parameters()
        assumed, quoted = (self._listed(parameters[name]) for name in ("assumed", "quoted"))
        if not assumed:
            return []
        sources = "; ".join(dict.fromkeys(parameters["quoted"].values()))
        rest = f". Quoted: {quoted} ({sources})" if quoted else ""
        return [f"assumed by us, because we have not read the rule's text in full: {assumed}{rest}"]

    def _listed(self, names: Iterable[str]) -> str:
        return ", ".join(f"{name} {self.numbers[name]}" for name in names)

    def reach(self) -> Mapping[str, TableAccuracy]:
        """The rule itself, about words."""
        from querycloak.methods.counted_users import NO_COUNT
        from querycloak.privacy.calibration.accuracy import TableAccuracy

        note = (
            f"A row comes out if each word of its query has at least {self.numbers['min_term_users']:,} users, also if "
            "one person alone asked the query."
        )
        return {"log": TableAccuracy(NO_COUNT, spurious=0.0, notes=(note,))}

    def count(self, log: SearchLog) -> Counted:
        """Cut into mini-sessions, leave out, generalise."""
        from querycloak.methods.eu_records.count import session_records
        from querycloak.methods.keys.cell_counts import check_attributes

        check_attributes(log, grouping_of(self.by, None))
        records = session_records(log, self.attributes or log.attributes, self.numbers)
        return CountedRows(
            lambda randomness: Drawn({"log": records.named(log, randomness)}, counts="none", rows=RowKind.RECORDS)
        )
