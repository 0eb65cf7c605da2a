"""Whether a log is in a language that the taxonomy has: one vote of each user (semantic.md, *Unprotected*)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.errors import InputError
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.engines import Engine

ONE_USER_IN = 3
"""English web searches have a noun of WordNet in seven or eight of ten cases, those of `synth` in four, German ones in
two or three."""
LEAST_USERS = 100
"""Fewer first searches may be anything."""


def check_language(engine: Engine, searches: ir.Table, concepts_of: Callable[[pa.Array], NDArray[np.int32]]) -> None:
    """Refuse a log of whose users too few began with a word that the taxonomy has."""
    window = ibis.window(group_by=searches.user, order_by=[searches.time, searches.query])
    numbered = searches.mutate(place=ibis.row_number().over(window))
    users = known = 0
    for batch in engine.stream(numbered.filter(numbered.place == 0).select("query")):
        found = concepts_of(batch.column("query")) >= 0
        users += len(found)
        known += int(found.sum())
    if users >= LEAST_USERS and ONE_USER_IN * known < users:
        raise InputError(
            Sentence(
                "WordNet has hardly any word of this log, which seems to be in another language than English; give "
                "a {taxonomy} of that language, or insist: {any_language:True}"
            )
        )
