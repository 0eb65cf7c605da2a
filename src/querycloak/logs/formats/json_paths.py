"""Tables of requested JSON paths for the scanner: the names that it compares at each depth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from querycloak.text.spans import Bytes

Path = str | tuple[str, ...]
"""A name or a dotted path; or several, of which the first that holds a text counts."""
NOWHERE, ROOT = 0, 1
NAME, NAME_END, NEXT, CHILD, ODD, ODD_OBJECT, COLUMN, RANK = range(8)
"""An edge: where its name begins and ends, the next edge of its bucket, the node below, whether it or an object below
it is odd, the column of its values (-1 if it has none), and its place among the paths of that column, from 1 (0 if it
is the only one)."""
BUCKETS = 32


class Tables(NamedTuple):
    """The names, one after another; a line for each edge; the first edge of each bucket, by node."""

    names: Bytes
    tree: NDArray[np.int32]
    buckets: NDArray[np.int32]


@dataclass
class _Edge:
    name: str
    child: int = NOWHERE
    odd: bool = False
    odd_object: bool = False
    column: int = -1
    rank: int = 0


class Paths:
    """A tree of names: edges have names, and a path ends at one."""

    def __init__(self, paths: Iterable[Path], no_objects: Iterable[str] = ()) -> None:
        self._nodes: list[dict[str, int]] = [{}, {}]  # nothing is nowhere
        self._edges = [_Edge("")]  # no name has the edge 0
        self.columns: dict[Path, int] = {}
        for path in paths:
            self._add(path)
        for each in no_objects:
            self._edges[self.edge(each)].odd_object = True

    def edge(self, path: str) -> int:
        """The number of the edge where a path ends."""
        node, (*steps, last) = ROOT, path.split(".")
        for step in steps:
            node = self._edges[self._nodes[node][step]].child
        return self._nodes[node][last]

    def tables(self) -> Tables:
        """Tables for the scanner."""
        names, tree = bytearray(), np.zeros((len(self._edges), 8), np.int32)
        buckets = np.zeros((len(self._nodes), BUCKETS), np.int32)
        for node, edges in enumerate(self._nodes):
            for number in edges.values():
                edge, name = self._edges[number], _encoded(self._edges[number].name)
                bucket = bucket_of(name)
                place = (len(names), len(names) + len(name), buckets[node, bucket])
                tree[number] = (*place, edge.child, edge.odd, edge.odd_object, edge.column, edge.rank)
                buckets[node, bucket] = number
                names += name
        return Tables(np.frombuffer(bytes(names) or b"\0", np.uint8), tree, buckets)

    def _add(self, path: Path) -> None:
        """A column for a path, or for several."""
        alternatives = (path,) if isinstance(path, str) else path
        for rank, each in enumerate(alternatives, start=0 if isinstance(path, str) else 1):
            edge = self._end_of(each)
            if edge is not None:
                edge.column, edge.rank = self.columns.setdefault(path, len(self.columns)), rank

    def _end_of(self, path: str) -> _Edge | None:
        """The edge where a path ends, step by step; a member of the whole rest's name would come first, and is odd."""
        node, rest = ROOT, path
        while "." in rest:
            self._edge_at(node, rest).odd = True
            first, _, rest = rest.partition(".")
            if not rest:
                return None
            edge = self._edge_at(node, first)
            if edge.child == NOWHERE:
                edge.child = len(self._nodes)
                self._nodes.append({})
            node = edge.child
        return self._edge_at(node, rest)

    def _edge_at(self, node: int, name: str) -> _Edge:
        number = self._nodes[node].setdefault(name, len(self._edges))
        if number == len(self._edges):
            self._edges.append(_Edge(name))
        return self._edges[number]


def bucket_of(name: bytes) -> int:
    """Bucket of a name, in any case of its letters."""
    return ((name[0] | 32) + 3 * (name[-1] | 32) + 5 * len(name)) % BUCKETS if name else 0


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
