"""HBDP, a baseline: noisy counts of every concept of a domain, for each user (semantic.md, claim 6)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.methods.semantic.domains import Domain
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.semantic.replacement import chosen_searches, rounded_scale
from querycloak.methods.semantic.searches import Searches
from querycloak.methods.semantic.totals import numbered_texts
from querycloak.privacy.calibration.accuracy import Range, TableAccuracy, margin
from querycloak.privacy.calibration.histogram import release_groups
from querycloak.privacy.calibration.threshold import laplace_noise
from querycloak.privacy.sampling.exact import stated
from querycloak.privacy.sampling.noise import Laplace
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import Stream

_MOST_CELLS = 200_000_000


def check_size(domain: Domain, users: int) -> None:
    """Refuse sizes with too many draws; call it before the charge."""
    size = len(domain.taxonomy)
    if size * users > _MOST_CELLS:
        raise ParameterError.of(
            "{criterion:hbdp} draws noise for every concept and user, and half of that comes out as rows: too many "
            "for a domain of {size:,} concepts and a log like this; name a smaller {domain}, or take another "
            "criterion",
            size=size,
        )


def accuracy_of_counts(method: Semantic) -> TableAccuracy:
    """The numbers of all concepts of the domain get noise for each user, so most rows are noise."""
    noise = laplace_noise(2 * (method.max_queries or 1), stated(method.budget))
    meaning = (
        f"searches of this user for the concept; of each user at most {method.max_queries} count; plus {noise.words}"
    )
    nobody = "Every concept gets noise for every user: many rows are of concepts that the user never asked for."
    off = margin(noise)
    return TableAccuracy(meaning, Range(off, off), notes=(nobody,))


def noisy_histograms(method: Semantic, domain: Domain, searches: Searches, randomness: Randomness) -> Stream:
    """Rows (user, query, count) for every noisy count above 0; most of them are noise."""
    size = len(domain.taxonomy)
    cells = size * len(searches.users)
    kept = chosen_searches(searches, searches.concepts < 0)
    owners = np.repeat(np.arange(len(searches.users)), searches.lengths)[kept]
    # What was found is numbered among all concepts, cells among those that may come out.
    asked = searches.concepts[kept]
    concepts = np.where(asked < 0, domain.taxonomy.root, domain.place_of[np.maximum(asked, 0)])
    if method.max_queries is None:
        raise TypeError("hbdp is made with a bound of queries: the method has checked it")
    noise = Laplace(rounded_scale(2 * method.max_queries, method.budget))
    cell_numbers, counts = noisy_cells(owners * np.int64(size) + concepts, cells, noise, randomness)
    return _rows(searches.users, domain, cell_numbers // size, cell_numbers % size, counts)


def noisy_cells(
    occupied: NDArray[np.int64], cells: int, noise: Laplace, randomness: Randomness
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cells with a noisy count above 0, and that count; of empty cells the number that pass is drawn."""
    keys, counts = np.unique(occupied, return_counts=True)
    drawn = counts + randomness.noise(noise, len(keys))
    passed = drawn > 0
    sizes = np.array([cells - len(keys)])
    empty = release_groups(np.zeros(1, np.int64)[sizes > 0], sizes[sizes > 0], noise, 0, randomness)
    # The rank among empty cells becomes a cell: as many occupied ones as stand before it are skipped.
    before = keys - np.arange(len(keys))
    places = empty.rank + np.searchsorted(before, empty.rank, side="right")
    all_keys = np.concatenate([keys[passed], places])
    order = np.argsort(all_keys)
    return all_keys[order], np.concatenate([drawn[passed], empty.count])[order]


def _rows(
    users: pa.Array, domain: Domain, owners: NDArray[np.int64], concepts: NDArray[np.int64], counts: NDArray[np.int64]
) -> Stream:
    shown, numbers_of = numbered_texts([domain.taxonomy.shown(concept) for concept in range(len(domain.taxonomy))])
    numbers = numbers_of[concepts]
    order = np.lexsort((numbers, owners, -counts))
    schema = pa.schema([("user", pa.string()), ("query", pa.string()), ("count", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, max(len(order), 1), 1 << 16):
            some = order[first : first + (1 << 16)]
            columns = [users.take(pa.array(owners[some])), shown.take(pa.array(numbers[some])), pa.array(counts[some])]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return Stream(schema, batches)
