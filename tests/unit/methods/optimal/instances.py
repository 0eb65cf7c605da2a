"""Small invented logs as counts: the paper's toy, and random ones."""

from __future__ import annotations

import numpy as np

from querycloak.methods.optimal.holdings import Holdings, of_counts

# Hong et al. (EDBT 2012), figure 1: counts of users 081, 082, 083 for five pairs.
TOY = np.array([[2, 0, 0], [3, 0, 1], [15, 7, 17], [0, 0, 1], [0, 2, 5]])


def of_matrix(matrix: np.ndarray) -> Holdings:
    """Holdings of a matrix of pairs by users."""
    pair, user = np.nonzero(matrix)
    return of_counts(pair, user, matrix[pair, user])


def toy() -> Holdings:
    return of_matrix(TOY)


def random_holdings(pairs: int, users: int, seed: int, mean: float = 5.0) -> Holdings:
    """Few popular pairs, many rare ones; every pair begins with two users."""
    random = np.random.default_rng(seed)
    number = round(users * mean)
    popular = np.floor(pairs * random.random(number) ** 3).astype(np.int64)
    pair = np.concatenate([popular, np.repeat(np.arange(pairs), 2)])
    user = random.integers(0, users, pair.size)
    key, inverse = np.unique(pair * users + user, return_inverse=True)
    count = np.bincount(inverse, random.geometric(0.7, pair.size)).astype(np.int64)
    return of_counts(key // users, key % users, count, query=np.arange(pairs) // 2)
