"""Measures of published counts beside the numbers of users behind them, declared and callable: private output.

`published` are a release's counts, `true` the users of the log who hold the same keys, `counted` those of them whom
the method's bounds let in. What is published differs from what is true by bounding (counted - true) and by noise
(published - counted); the bias of the two adds up, the relative errors need not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from querycloak.evaluation.measure import Measure

WIKIMEDIA = "Adeleye et al., Publishing Wikipedia usage data with strong privacy guarantees, arXiv 2308.16298, 2023"
OURS = "querycloak"
Floats = NDArray[np.float64]


def relative_errors(published: ArrayLike, true: ArrayLike) -> Floats:
    """|published - true| / true of each key; keys that nobody holds have none and are left out."""
    values, users = np.asarray(published, np.float64), np.asarray(true, np.float64)
    held = users > 0
    return np.asarray(np.abs(values[held] - users[held]) / users[held])


def mean_relative_error(published: ArrayLike, true: ArrayLike) -> float | None:
    """The mean of `relative_errors`."""
    errors = relative_errors(published, true)
    return float(errors.mean()) if errors.size else None


def median_relative_error(published: ArrayLike, true: ArrayLike) -> float | None:
    """The median of `relative_errors`."""
    errors = relative_errors(published, true)
    return float(np.median(errors)) if errors.size else None


def error_of_noise(published: ArrayLike, counted: ArrayLike, true: ArrayLike) -> float | None:
    """The mean of |published - counted| / true."""
    difference = np.abs(np.asarray(published, np.float64) - np.asarray(counted, np.float64))
    users = np.asarray(true, np.float64)
    held = users > 0
    return float((difference[held] / users[held]).mean()) if held.any() else None


def bias(published: ArrayLike, true: ArrayLike) -> float | None:
    """(sum of published - sum of true) / sum of true."""
    return _share(_total(published) - _total(true), _total(true))


def bias_of_noise(published: ArrayLike, counted: ArrayLike, true: ArrayLike) -> float | None:
    """(sum of published - sum of counted) / sum of true."""
    return _share(_total(published) - _total(counted), _total(true))


def drop_rate(true: ArrayLike, released: ArrayLike, least: int = 1, *, keys: ArrayLike | None = None) -> float | None:
    """The share of keys of at least `least` users that are missing.

    `true` has an entry for each key of the log and `released` whether it is there; or an entry for each number of
    users, with how many `keys` have it, and how many of these are there.
    """
    users = np.asarray(true, np.int64)
    numbers = np.ones(users.size) if keys is None else np.asarray(keys, np.float64)
    enough = users >= least
    there = float(np.asarray(released, np.float64)[enough].sum())
    return _share(float(numbers[enough].sum()) - there, float(numbers[enough].sum()))


def spurious_rate(true: ArrayLike) -> float | None:
    """The share of rows that nobody holds, from the users behind each row."""
    users = np.asarray(true, np.int64)
    return float((users == 0).mean()) if users.size else None


def key_share(true: ArrayLike, keys: int) -> float | None:
    """The share of the log's keys that are there, from the users behind each row and the number of all keys."""
    return _share(float((np.asarray(true) > 0).sum()), keys)


def volume_share(true: ArrayLike, volume: int) -> float | None:
    """The share of all (user, key) of the log whose key is there."""
    return _share(_total(true), volume)


def _total(values: ArrayLike) -> float:
    return float(np.asarray(values, np.float64).sum())


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


MEAN_RELATIVE_ERROR = Measure(
    "mean_relative_error", "mean over the keys that came out of |published count - users| / users", WIKIMEDIA, "lower",
    compute=mean_relative_error,
)  # fmt: skip
MEDIAN_RELATIVE_ERROR = Measure(
    "median_relative_error", "the median of the same", WIKIMEDIA, "lower", compute=median_relative_error
)
ERROR_OF_BOUNDING = Measure(
    "error_of_bounding", "the part of the mean relative error that is due to bounds per user: |users counted - users| "
    "/ users", OURS, "lower", compute=mean_relative_error,
)  # fmt: skip
ERROR_OF_NOISE = Measure(
    "error_of_noise", "the part of the mean relative error that is due to noise: |published count - users counted| / "
    "users", OURS, "lower", compute=error_of_noise,
)  # fmt: skip
BIAS = Measure(
    "bias", "how much too high (above 0) or too low the published counts are in all, as a share of the users", OURS,
    "none", compute=bias,
)  # fmt: skip
BIAS_OF_BOUNDING = Measure(
    "bias_of_bounding", "the part of the bias that is due to bounds per user", OURS, "none", compute=bias
)
BIAS_OF_NOISE = Measure(
    "bias_of_noise", "the part of the bias that is due to noise, and to being published only above a threshold", OURS,
    "none", compute=bias_of_noise,
)  # fmt: skip
DROP_RATE = Measure(
    "drop_rate", "share of the log's keys of at least this many users that are missing", WIKIMEDIA, "lower",
    compute=drop_rate,
)  # fmt: skip
SPURIOUS_RATE = Measure(
    "spurious_rate", "share of the rows that nobody holds", WIKIMEDIA, "lower", compute=spurious_rate
)
KEY_SHARE = Measure("key_share", "share of the log's keys that came out", OURS, "higher", compute=key_share)
VOLUME_SHARE = Measure(
    "volume_share", "share of the log's pairs of user and key whose key came out", OURS, "higher", compute=volume_share
)
COUNT_MEASURES = (
    MEAN_RELATIVE_ERROR, MEDIAN_RELATIVE_ERROR, ERROR_OF_BOUNDING, ERROR_OF_NOISE, BIAS, BIAS_OF_BOUNDING,
    BIAS_OF_NOISE, DROP_RATE, SPURIOUS_RATE, KEY_SHARE, VOLUME_SHARE,
)  # fmt: skip
