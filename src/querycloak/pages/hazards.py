"""The 24 hazards of NIST SP 800-226, answered for one release: guarded, open, or yours (the owner's).

After the draft of December 2023 and the final version of March 2025 (doi:10.6028/NIST.SP.800-226). The functions
choose the answer from the card; its sentence stands in `templates/hazards.html`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from querycloak.pages.layout import environment
from querycloak.privacy.explanation import comes_out_exactly
from querycloak.privacy.sampling.exact import shown_up
from querycloak.releases.datasheet import beyond_public_lists
from querycloak.releases.release import Release
from querycloak.releases.row_kinds import RowKind

Answer = Literal["guarded", "open", "yours"]
GUARDED: Answer = "guarded"
OPEN: Answer = "open"
YOURS: Answer = "yours"
MEANINGS = {
    GUARDED: "the release guards against it",
    OPEN: "the release does not guard against it, or not fully",
    YOURS: "no release can answer it, the owner must",
}
CAUTIOUS = 1.0
"""The epsilon up to which the guidelines call a guarantee cautious."""
_FAR_BELOW = 10
Answered = tuple[Answer, str]


@dataclass(frozen=True)
class Hazard:
    """One hazard, answered."""

    number: int
    name: str
    answer: Answer
    reason: str


def hazards_of(release: Release) -> list[Hazard]:
    """All of them, in the order of the publication."""
    return [Hazard(number, name, *answer(release)) for number, (name, answer) in enumerate(_ALL, 1)]


def _say(case: str, **values: Any) -> str:
    """The sentence of a case."""
    words = environment().get_template("hazards.html").module
    return Markup(getattr(words, case)(**values))


def _always(answer: Answer, case: str) -> Callable[[Release], Answered]:
    return lambda _: (answer, _say(case))


def _no_bound(release: Release) -> str | None:
    """Reason that nothing limits the knowledge about one person; None under differential privacy."""
    if release.seeded:
        return _say("seeded")
    return {"syntactic": _say("rule"), "sampling-only": _say("one_step")}.get(release.proven.kind)


def _limited(answer: Callable[[Release], Answered]) -> Callable[[Release], Answered]:
    """The answer of a release that limits the knowledge about one person; others are open."""

    def answered(release: Release) -> Answered:
        reason = _no_bound(release)
        return answer(release) if reason is None else (OPEN, reason)

    return answered


def _without_noise(release: Release) -> bool:
    return release.proven.kind == "syntactic" and release.counts in ("exact", "none")


@_limited
def _large_epsilon(release: Release) -> Answered:
    epsilon, _ = release.proven.numbers
    if epsilon <= CAUTIOUS:
        return GUARDED, _say("small_epsilon", epsilon=shown_up(epsilon))
    return OPEN, _say("large_epsilon", epsilon=shown_up(epsilon), cautious=CAUTIOUS)


@_limited
def _rare_catastrophe(release: Release) -> Answered:
    _, delta = release.proven.numbers
    if delta == 0:
        return GUARDED, _say("no_delta")
    if release.population_size is None:
        return YOURS, _say("delta_of_unknown", delta=shown_up(delta))
    expected, people = delta * release.population_size, release.population_size
    small = expected * _FAR_BELOW <= 1
    sentence = _say("small_delta" if small else "large_delta", delta=shown_up(delta), expected=expected, people=people)
    return GUARDED if small else OPEN, sentence


@_limited
def _unit(release: Release) -> Answered:
    if release.proven.unit != "user":
        return OPEN, _say("unit_query")
    if release.proven.neighbours == "replace-query":
        return OPEN, _say("unit_asked", facts=comes_out_exactly(release.proven))
    return GUARDED, _say("unit_user")


@_limited
def _repeats(release: Release) -> Answered:
    return (OPEN, _say("repeats_query")) if release.proven.unit != "user" else (GUARDED, _say("repeats_user"))


def _deltas(release: Release) -> Answered:
    if release.proven.kind == "syntactic":
        return GUARDED, _say("deltas_rule")
    return GUARDED, _say("deltas", compared=release.proven.covers_release and release.proven.unit == "user")


def _home_made(release: Release) -> Answered:
    if release.seeded:
        return OPEN, _say("test_numbers")
    return YOURS, _say("home_made_rule" if _without_noise(release) else "home_made")


def _small_groups(release: Release) -> Answered:
    needed = [reach.users95.high for reach in release.reach.values() if reach.users95 is not None]
    if release.rows is RowKind.RECORDS:
        return OPEN, _say("groups_of_words")
    if release.counts in ("exact", "sampled") or release.rows.is_random:
        return OPEN, _say("groups_changed")
    if not needed:
        return OPEN, _say("groups_unstated")
    return OPEN, _say("groups_missing", users=max(needed))


def _rounding(release: Release) -> Answered:
    if release.counts in ("synthetic", "weighed"):
        return OPEN, _say("fitted" if release.counts == "synthetic" else "floored")
    if release.counts == "sampled" or _without_noise(release):
        return GUARDED, _say("without_noise")
    if release.rows.is_random and release.parameters.get("criterion") != "hbdp":
        return GUARDED, _say("nothing_to_round")
    null = release.counts == "cells" or release.parameters.get("count_of") == "clicks"
    return (OPEN, _say("nulls")) if null else (GUARDED, _say("no_rounding"))


def _bias(release: Release) -> Answered:
    margins = [reach.margin95 for reach in release.reach.values() if reach.margin95 is not None]
    if release.counts == "exact":
        return GUARDED, _say("exact_counts")
    if not margins:
        return OPEN, _say("no_counts" if release.counts == "none" else "no_margin")
    widest = max(margin.high for margin in margins)
    if release.counts == "synthetic":
        return OPEN, _say("fitted_margin", widest=widest)
    every_cell = "cells" in release.tables
    if release.counts in ("one-draw", "public-keys") or (release.counts == "cells" and not every_cell):
        return GUARDED, _say("margin_selected", widest=widest)
    clamped = 0 if every_cell else 1
    clamps = every_cell or release.counts == "weighed" or release.parameters.get("count_of") == "clicks"
    return GUARDED, _say(
        "margin_fresh",
        widest=widest,
        clamped=str(clamped) if clamps else None,
        cut=release.parameters.get("sequences") == "released",
        levels="phrases" in release.tables,
    )


def _bounding(release: Release) -> Answered:
    if release.rows.is_random:
        return (YOURS, _say("bounded_rows")) if release.parameters.get("max_queries") else (GUARDED, _say("unbounded"))
    bounded = release.proven.covers_release or "queries_per_user" in release.parameters
    return (YOURS, _say("bounded")) if bounded else (GUARDED, _say("unbounded"))


def _keys(release: Release) -> Answered:
    if (reason := _no_bound(release)) is not None:
        return OPEN, _say("keys_of_the_log", reason=reason)
    if beyond := beyond_public_lists(release):
        return GUARDED, _say("keys_beyond", beyond=" and ".join(beyond))
    if release.counts == "public-keys" or "cells" in release.tables:
        return GUARDED, _say("keys_public")
    if release.counts == "synthetic":
        return GUARDED, _say("keys_made_up")
    of_taxonomy = release.rows.is_random and release.rows is not RowKind.RANDOMISED
    return GUARDED, _say("keys_taxonomy" if of_taxonomy else "keys_threshold")


def _model(release: Release) -> Answered:
    if release.rows is not RowKind.COMPOSED:
        return GUARDED, _say("no_model")
    reason = _no_bound(release)
    return (GUARDED, _say("private_model")) if reason is None else (OPEN, reason)


def _synthetic(release: Release) -> Answered:
    if release.counts == "sampled":
        return OPEN, _say("real_users")
    if release.counts != "synthetic" and not release.rows.is_random:
        return GUARDED, _say("not_synthetic")
    if (reason := _no_bound(release)) is not None:
        return OPEN, reason
    return GUARDED, _say("made_up" if release.counts == "synthetic" else "drawn_rows")


def _text(release: Release) -> Answered:
    if (reason := _no_bound(release)) is not None:
        return OPEN, _say("text_of_one", reason=reason)
    return (OPEN, _say("text_of_query")) if release.proven.unit != "user" else (GUARDED, _say("text_of_user"))


def _side_channels(release: Release) -> Answered:
    if release.seeded:
        return OPEN, _say("from_a_seed")
    return YOURS, _say("side_channels_of_rule" if _without_noise(release) else "side_channels")


_ALL: tuple[tuple[str, Callable[[Release], Answered]], ...] = (
    ("A large epsilon may mean little", _large_epsilon),
    ("A delta above 0 allows a rare catastrophe", _rare_catastrophe),
    ("The unit must cover the harm that is feared", _unit),
    ("Limits for each event or period do not protect what repeats", _repeats),
    ("Guarantees with different deltas", _deltas),
    ("Guarantees with different units cannot be compared",
     lambda each: (GUARDED, _say("units", unit=each.proven.unit, neighbours=each.proven.neighbours))),
    ("Converting between kinds of guarantees can mislead",
     lambda each: (GUARDED, _say("converted" if each.composition else "not_converted"))),
    ("Other releases about the same people that are not private", _always(YOURS, "other_releases")),
    ("Home-made implementations", _home_made),
    ("Noise falls hardest on small groups", _small_groups),
    ("Rounding and clamping cost accuracy", _rounding),
    ("Bias must be quantified", _bias),
    ("Bounding what one person adds costs accuracy", _bounding),
    ("Bins and keys can leak", _keys),
    ("Models memorise what they are trained on", _model),
    ("Synthetic data without differential privacy can be attacked", _synthetic),
    ("Deep synthesis can be worse than noisy counts", _always(GUARDED, "no_deep_model")),
    ("For text the unit is hard to define", _text),
    ("Interactive use adds up",
     lambda each: (YOURS, _say("not_charged")) if each.accounting.charge is None else (GUARDED, _say("charged"))),
    ("Trust assumptions", _always(YOURS, "central")),
    ("Side channels: floating point, time, back ends", _side_channels),
    ("Security of the data", _always(YOURS, "security")),
    ("Access to the data", _always(YOURS, "access")),
    ("Collect less", lambda each: (YOURS, _say("collect_less", keep_url=each.log.get("keep_url")))),
)  # fmt: skip
