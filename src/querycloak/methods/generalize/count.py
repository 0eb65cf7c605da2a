"""What every query of a log becomes (generalize.md): true figures, private until something is released."""

from __future__ import annotations

from dataclasses import dataclass

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.methods.distinct_queries import gather
from querycloak.methods.generalize.clusters import Tree, cut
from querycloak.methods.generalize.phrases import UNMATCHED, matcher_of
from querycloak.methods.uses import sorted_uses
from querycloak.text.lists import Lists
from querycloak.text.sorted_sets import sorted_sets
from querycloak.text.taxonomy import Taxonomy


@dataclass(frozen=True, eq=False)
class Generalised:
    """Queries with their own concepts, and what is needed to cut for any k."""

    queries: pa.ChunkedArray
    own_users: NDArray[np.int32]
    concepts: NDArray[np.int32]
    users_of_concepts: Lists
    number_of_users: int
    tree: Tree

    def becomes(self, least: int) -> NDArray[np.int32]:
        """The concept that stands for each query if each needs this many users; -1 for none."""
        of_concept = cut(self.tree, self.users_of_concepts, self.number_of_users, least)
        return np.where(self.concepts == UNMATCHED, -1, of_concept[self.concepts]).astype(np.int32)


def generalise(engine: Engine, uses: ir.Table, taxonomy: Taxonomy) -> Generalised:
    """Match every query."""
    found = gather(engine.stream(sorted_uses(uses)), matcher_of(taxonomy).concepts)
    of_concepts = sorted_sets(found.use_numbers, found.use_users, len(taxonomy))
    tree = Tree.of(taxonomy)
    return Generalised(found.queries, found.own_users, found.numbers, of_concepts, found.number_of_users, tree)
