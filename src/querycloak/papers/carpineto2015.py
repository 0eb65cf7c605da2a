"""k-theta affinity of Carpineto and Romano (2015) with its own rule for words: the paper variant of `affinity`."""

from __future__ import annotations

from dataclasses import dataclass

from querycloak.methods.affinity.method import Affinity
from querycloak.privacy.guarantee import Guarantee

WORD_USERS = 2
"""Number of users that every word needs in the paper."""


@dataclass(frozen=True, kw_only=True)
class PaperAffinity(Affinity):
    """Affinity whose words need two users, however many a query needs."""

    @property
    def usual_word_users(self) -> int:
        """Two, the paper's number."""
        return WORD_USERS

    def claimed(self) -> Guarantee:
        """Claim of Carpineto and Romano."""
        because = "as stated by Carpineto and Romano, 2015: every released query is protected by k users"
        return Guarantee(kind="syntactic", unit="query", neighbours=None, k=self.k, because=because)
