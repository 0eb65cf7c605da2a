"""Totals computed back from draws by the public law of the draw, with their errors (semantic.md, *Totals*)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.methods.semantic.choice import READABLE
from querycloak.methods.semantic.weights import EqualityWeights, SemanticWeights
from querycloak.privacy.calibration.accuracy import TableAccuracy

Floats = NDArray[np.float64]
MOST_CANDIDATES = 3_000
"""Totals are published for domains up to this size: they need the inverse of a matrix of that size."""
MOST_LISTED = 300
"""The channel is listed for domains up to this size: it has a row for every pair of candidates."""
_MEANING = (
    "there is no count: total estimates how many of the searches that were drawn asked for the concept; of each user "
    "only those count that have a row in log"
)
_MEAN_ERROR = math.sqrt(2 / math.pi)  # of the absolute value of normal noise, in standard deviations


@dataclass(frozen=True, eq=False)
class DrawChannel:
    """Probability of every output (columns) given every input (rows), of one draw from a domain."""

    probabilities: Floats
    equal: bool = False
    """True if all outputs but the input itself are alike."""

    @classmethod
    def of(cls, weights: SemanticWeights | EqualityWeights, exponent: float) -> DrawChannel:
        """The law of `weights.draw` at this exponent (claim 1)."""
        table = weights.matrix(exponent).astype(np.float64)
        return cls(table / table.sum(axis=1, keepdims=True), isinstance(weights, EqualityWeights))

    @cached_property
    def inverse(self) -> Floats | None:
        """The inverse matrix; None if inputs cannot be told apart in double precision."""
        if self.equal:  # (p - q) I + q J, where p + (K - 1) q = 1
            stays, moves = self.probabilities[0, 0], self.probabilities[0, -1]
            if len(self.probabilities) == 1:
                return np.eye(1)
            return (np.eye(len(self.probabilities)) - moves) / (stays - moves) if stays > moves else None
        try:
            inverse = np.linalg.inv(self.probabilities)
        except np.linalg.LinAlgError:
            return None
        exact = np.abs(self.probabilities @ inverse - np.eye(len(inverse))).max() < 1e-6
        return np.asarray(inverse, np.float64) if exact else None


@dataclass(frozen=True, eq=False)
class Totals:
    """Estimated number of draws with each label as input; unbiased given the log."""

    labels: pa.Array
    rows: NDArray[np.int64]
    totals: Floats
    errors: Floats

    @classmethod
    def of(cls, channel: DrawChannel, drawn: NDArray[np.int64], texts: Sequence[str]) -> Totals | None:
        """From the number of times each candidate was drawn; candidates of one text are one row.

        None if the channel cannot be inverted.
        """
        if channel.inverse is None:
            return None
        labels, numbers = numbered_texts(texts)
        folded = np.zeros((len(texts), len(labels)))
        np.add.at(folded.T, numbers, channel.inverse.T)
        totals = drawn @ folded
        # Given the log, the variance is sum over o of E[drawn(o)] inverse(o, j)^2, less the total itself.
        variances = np.maximum(drawn @ folded**2 - totals, 0.0)
        rows = np.bincount(numbers, drawn, minlength=len(labels)).astype(np.int64)
        return cls(labels, rows, totals, np.sqrt(variances))

    @property
    def shares(self) -> Floats:
        """Shares that are nearest to the totals of all shares that are not below 0 and add up to 1."""
        number = int(self.rows.sum())
        return nearest_shares(self.totals / number) if number else np.zeros(len(self.totals))

    @property
    def distance(self) -> float:
        """Expected total variation between totals, as shares, and the truth: half the mean absolute errors."""
        return float(_MEAN_ERROR * self.errors.sum() / 2 / max(int(self.rows.sum()), 1))

    def table(self) -> pa.Table:
        """Rows in order of text: the draws alone must not decide an order that is not said."""
        return pa.table(
            {
                "query": self.labels,
                "rows": pa.array(self.rows),
                "total": pa.array(np.round(self.totals, 1)),
                "standard_error": pa.array(np.round(self.errors, 1)),
                "share": pa.array(np.round(self.shares, 6)),
            }
        )


def numbered_texts(texts: Sequence[str]) -> tuple[pa.Array, NDArray[np.int32]]:
    """The different texts in their order, and the number of each text among them."""
    labels = sorted(set(texts))
    number_of = {label: number for number, label in enumerate(labels)}
    return pa.array(labels, pa.string()), np.array([number_of[text] for text in texts], np.int32)


def nearest_shares(values: Floats) -> Floats:
    """The nearest point, by squared distance, of all shares that add up to 1 (Duchi et al. 2008)."""
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - excess[np.flatnonzero(descending > excess)[-1]], 0.0))


def predicted_distance(channel: DrawChannel, shares: Floats) -> float:
    """The expected distance for one draw from these shares; n draws divide it by the square root of n."""
    if channel.inverse is None:
        return math.inf
    variances = shares @ channel.probabilities @ channel.inverse**2 - shares
    return float(_MEAN_ERROR * np.sqrt(np.maximum(variances, 0.0)).sum() / 2)


def channel_table(channel: DrawChannel, texts: Sequence[str]) -> pa.Table:
    """The probabilities as rows, in order of texts."""
    order = np.argsort(np.array(texts, object), kind="stable")
    size, labels = len(texts), pa.array([texts[place] for place in order], pa.string())
    places = np.arange(size)
    table = pa.table(
        {
            "asked": labels.take(pa.array(np.repeat(places, size))),
            "query": labels.take(pa.array(np.tile(places, size))),
            "probability": pa.array(channel.probabilities[np.ix_(order, order)].reshape(-1)),
        }
    )
    repeated = len(set(texts)) < size
    return table.sort_by([("asked", "ascending"), ("query", "ascending")]) if repeated else table


def accuracy_of(totals: Totals, channel: DrawChannel) -> TableAccuracy:
    """Meaning of the totals, and their errors; computed from what is published."""
    law = "Its probabilities are in the table channel, or follow from the parameters."
    if channel.equal:
        stays, moves = channel.probabilities[0, 0], channel.probabilities[0].min()
        others = len(channel.probabilities) - 1
        law = (
            f"A row is what was asked with probability {stays:.6g}, and any other of the {others:,} candidates with "
            f"{moves:.6g} each."
        )
    distance = totals.distance
    verdict = "they can be read" if distance <= READABLE else "too much to read them; take fewer candidates"
    off = f"As shares, totals are expected to be {distance:.2f} off (total variation, where 1 is the most): {verdict}."
    notes = "Totals follow from the rows and the law of the draw: they cost nothing and tell nothing more.", law, off
    return TableAccuracy(_MEANING, notes=notes)
