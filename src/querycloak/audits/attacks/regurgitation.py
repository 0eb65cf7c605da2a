"""Regurgitation: a model that is trained on the release completes secrets from their first letters.

The receiver of a release may train a model on it. The attack does the same with the release's own model
(`releases/release_model.py`) and asks it to complete the first half of every planted secret: is the secret among the
ten most probable completions? Controls are secrets of people who are not in the log. The baseline is the public model
of characters. `exposure` ranks a secret among made-up texts of its form (Carlini, Liu, Erlingsson, Kos and Song, USENIX
Security 2019) by the bits that the release saves beside public text: log2 of their number less log2 of the rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.audits.attack import Finding, Share
from querycloak.audits.attacks.planted_secrets import ALL, NO_TRUTH, secrets_of
from querycloak.audits.audit_data import AuditData
from querycloak.errors import ParameterError
from querycloak.evaluation.target import Target
from querycloak.language.character_model import character_bits
from querycloak.language.query_model import QueryModel
from querycloak.language.word_model import contexts_of
from querycloak.releases.release_model import LONGEST, model_of_tables
from querycloak.text.word_boundaries import words_of

SUGGESTED = 10
MOST_SECRETS = 200
"""Secrets of each side that are asked for; of more, these are drawn with a public seed."""
CANDIDATES = 128
"""Texts of a secret's form, itself among them, by which its exposure is measured."""
EXPOSED_BITS = 6.0
"""A secret counts as exposed from this many of the log2(128) = 7 bits on: it is among the first two."""
SEED = 2019
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"


class Regurgitation:
    """A secret is out if a model of the release completes it, or knows it better than texts of its form."""

    name: ClassVar[str] = "regurgitation"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:
        """It takes the truth, and a table from which a model can be made."""
        if knowledge.truth is None:
            return NO_TRUTH
        if {"phrases", "queries", "clicks"} & set(release.kinds) or "query" in release.columns.get("log", ()):
            return None
        return "it holds no text that was asked, so no model can be made of it"

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """Completion by the release's model, kind by kind, and exposure."""
        if knowledge.truth is None:
            return
        secrets = secrets_of(knowledge.truth, normalised=knowledge.train.source.choices.normalise)
        sides = [_sampled(secrets, users) for users in (knowledge.train_users, knowledge.control_users)]
        model = _model(release, [text for side in sides for text in side["query"].to_pylist()])
        if model is None:
            yield Finding.missing("it is empty, so no model can be made of it", ALL)
            return
        completed = [_completed(model, side["query"].to_pylist()) for side in sides]
        kinds = [side["kind"].to_numpy(zero_copy_only=False) for side in sides]
        for kind in [ALL, *sorted({each for side in kinds for each in side.tolist()})]:
            chosen = [np.ones(len(side), np.bool_) if kind == ALL else side == kind for side in kinds]
            shares = [Share.of(int(out[own].sum()), int(own.sum())) for out, own in zip(completed, chosen, strict=True)]
            yield Finding.of(f"completed, {kind}", shares[0], shares[1], 0.0)
        random = np.random.default_rng(SEED)
        exposed = [_exposures(model, side["query"].to_pylist(), random) >= EXPOSED_BITS for side in sides]
        shares = [Share.of(int(side.sum()), len(side)) for side in exposed]
        setting = f"exposed by {EXPOSED_BITS:g} of {np.log2(CANDIDATES):g} bits"
        yield Finding.of(setting, shares[0], shares[1], 2 / CANDIDATES)


def _model(release: Target, secrets: Sequence[str]) -> QueryModel | None:
    """The model that a receiver would make, n-grams as far as secrets need them; None of an empty release."""
    try:
        return model_of_tables(release.tables, contexts_of(map(words_of, secrets), LONGEST))
    except ParameterError:
        return None


def _sampled(secrets: pa.Table, users: pa.Array) -> pa.Table:
    """Secrets of these users with two characters or more, once each; at most MOST_SECRETS, drawn with the seed."""
    mine = secrets.filter(pc.is_in(secrets["user"], users)).select(["query", "kind"])
    mine = mine.group_by(["query", "kind"]).aggregate([]).sort_by([("query", "ascending"), ("kind", "ascending")])
    mine = mine.filter(pc.greater(pc.utf8_length(mine["query"]), 1))
    if mine.num_rows <= MOST_SECRETS:
        return mine
    return mine.take(np.sort(np.random.default_rng(SEED).choice(mine.num_rows, MOST_SECRETS, replace=False)))


def _completed(model: QueryModel, secrets: Sequence[str]) -> NDArray[np.bool_]:
    """By secret: True if it is among the completions of its first half."""
    hits = [
        any(each.query == secret for each in model.complete(secret[: len(secret) // 2], SUGGESTED))
        for secret in secrets
    ]
    return np.array(hits, np.bool_)


def _exposures(model: QueryModel, secrets: Sequence[str], random: np.random.Generator) -> NDArray[np.float64]:
    """Exposure of each secret: log2 of the number of candidates less log2 of its rank; ties lower it."""
    bits = []
    for secret in secrets:
        own = _gain(model, secret)
        others = [_gain(model, each) for each in _of_its_form(secret, CANDIDATES - 1, random)]
        bits.append(np.log2(CANDIDATES) - np.log2(1 + sum(each >= own for each in others)))
    return np.array(bits, np.float64)


def _gain(model: QueryModel, text: str) -> float:
    """Bits that the release saves on a text beside the public model of characters, to six digits."""
    return round(character_bits(text) - model.bits(text), 6)


def _of_its_form(secret: str, number: int, random: np.random.Generator) -> list[str]:
    """Made-up texts like a secret: other letters for letters of its second half, other digits for digits."""
    kept, rest = secret[: len(secret) // 2], secret[len(secret) // 2 :]
    columns = [_drawn(character, number, random) for character in rest]
    return [kept + "".join(characters) for characters in zip(*columns, strict=True)]


def _drawn(character: str, number: int, random: np.random.Generator) -> list[str]:
    """This number of random characters of a character's kind; others than letters and digits stay as they are."""
    for alphabet in (_DIGITS, _LETTERS):
        if character in alphabet:
            return [alphabet[place] for place in random.integers(len(alphabet), size=number).tolist()]
    return [character] * number
