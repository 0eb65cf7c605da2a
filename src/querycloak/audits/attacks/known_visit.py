"""Known visit: names in a release that fit a few known searches of one visit and its day; success if one fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.attack import Finding
from querycloak.audits.attacks.singling_out import fitting_names
from querycloak.audits.audit_data import AuditData, NameIndex, Numbers
from querycloak.evaluation.target import Target
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.eu_records.european_rules import coarser_and_coarser, levels_of
from querycloak.methods.keys.attributes import OTHER
from querycloak.releases.tables import whole_table

KNOWN = (1, 2, 3)
_BETWEEN = "\x1f"


class KnownVisit:
    """Exactly one name has all known searches of a visit on its day, also with its attributes.

    In settings `right`, that name is also the person's own.
    """

    name: ClassVar[str] = "known-visit"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:  # noqa: ARG002
        """Needs rows under names, with days."""
        reason = release.without_names()
        return reason or (None if "time" in release.columns["log"] else "its rows have no times")

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """One to three known searches, with the day alone and with attributes."""
        sides = [
            (knowledge.train, knowledge.member_sample, "members"),
            (knowledge.control, knowledge.control_sample, "controls"),
        ]
        visits = [_visits(log, users, knowledge.random(f"known-visit {side}")) for log, users, side in sides]
        unit = str(release.parameters.get("times") or "day")
        for attributes in dict.fromkeys(((), _released_attributes(release, knowledge))):
            rows = _released_rows(release, attributes, unit)
            groups = set(rows["group"].unique().to_pylist())
            sides_known = [_texts(each, attributes, groups, unit) for each in visits]
            texts = pc.unique(pa.concat_arrays(sides_known))
            index = NameIndex.of(rows.select(["user", "query"]).to_batches(), texts)
            owner = knowledge.owner_numbers(release, knowledge.member_sample, index.names)
            for number in KNOWN:
                label = f"m={number}{' and attributes' * bool(attributes)}"
                (who, known), (_, of_controls) = (
                    _first(visit, side, texts, number) for visit, side in zip(visits, sides_known, strict=True)
                )
                fits = index.fitting(known), index.fitting(of_controls)
                yield from fitting_names(label, who, *fits, owner, 1 / len(knowledge.train_users))


def _released_attributes(release: Target, knowledge: AuditData) -> tuple[str, ...]:
    """Attributes that both the release and the logs have."""
    cells = release.cells.get("log")
    names = () if cells is None else cells.schema.names
    both = set(knowledge.train.attributes) & set(knowledge.control.attributes)
    return tuple(name for name in names if name in both)


def _released_rows(release: Target, attributes: Sequence[str], unit: str) -> pa.Table:
    """user, group and query of each row; the query is prefixed with its day and group."""
    if attributes:
        rows = whole_table("log", release.cells["log"])
        name, days = rows["session"], rows["day"]
    else:
        rows = release.table("log")
        name, days = rows["user"], _days(rows["time"], unit)
    group = _joined(rows, attributes)
    query = pc.binary_join_element_wise(days, group, rows["query"], _BETWEEN)
    return pa.table({"user": name, "group": group, "query": query})


def _joined(rows: pa.Table, attributes: Sequence[str]) -> pa.ChunkedArray:
    if not attributes:
        return pa.chunked_array([pa.array([""] * rows.num_rows, pa.string())])
    values = [rows[name].fill_null(OTHER) for name in attributes]
    return values[0] if len(values) == 1 else pc.binary_join_element_wise(*values, _BETWEEN)


def _days(times: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    return pc.strftime(pc.floor_temporal(times, unit=unit), "%Y-%m-%d")


def _visits(log: SearchLog, users: pa.Array, random: np.random.Generator) -> pa.Table:
    """person (an index into `users`), time, query and attributes of the searches of a visit of each, at random."""
    sessions = log.sessions().semi_join(log.engine.upload(pa.table({"user": users})), "user")
    fetched = log.engine.fetch(sessions.select("user", "session", "time", "query", *log.attributes))
    fetched = fetched.sort_by([("user", "ascending"), ("session", "ascending"), ("time", "ascending")])
    person = pc.index_in(fetched["user"], users).to_numpy().astype(np.int64)
    visit = person * (int(pc.max(fetched["session"]).as_py() or 0) + 1) + fetched["session"].to_numpy()
    visits, first, where = np.unique(visit, return_index=True, return_inverse=True)
    order = np.lexsort((random.random(len(visits)), person[first]))
    chosen = np.zeros(len(visits), np.bool_)
    owners = person[first][order]
    chosen[order[np.concatenate([[True], owners[1:] != owners[:-1]])]] = True
    mixed = np.lexsort((random.random(len(person)), person))
    mixed = mixed[chosen[where[mixed]]]
    return fetched.append_column("person", pa.array(person)).take(pa.array(mixed))


def _texts(visits: pa.Table, attributes: Sequence[str], groups: set[str], unit: str) -> pa.Array:
    """Known part of each search, spelled as in released rows: its day, its group and its query."""
    group = _joined(visits, attributes).combine_chunks()
    if attributes:
        coded = group.dictionary_encode()
        values = [_group_of(cell.split(_BETWEEN), attributes, groups) for cell in coded.dictionary.to_pylist()]
        group = pa.array(values, pa.string()).take(coded.indices)
    days = _days(visits["time"], unit).combine_chunks()
    return pc.binary_join_element_wise(days, group, visits["query"].combine_chunks(), _BETWEEN)


def _group_of(cell: Sequence[str], attributes: Sequence[str], groups: set[str]) -> str:
    """The first group, from the least general on, that the release has; the rule that made it is public."""
    for levels in coarser_and_coarser(attributes):
        wide = _BETWEEN.join(
            levels_of(name, value)[level] for name, value, level in zip(attributes, cell, levels, strict=True)
        )
        if wide in groups:
            return wide
    return ""


def _first(visits: pa.Table, known: pa.Array, texts: pa.Array, number: int) -> tuple[Numbers, Numbers]:
    """People with this number of different searches in a visit, and indices into `texts` of the first ones."""
    person = visits["person"].to_numpy()
    code = pc.index_in(known, texts).to_numpy(zero_copy_only=False).astype(np.int64)
    _, once = np.unique(person * (len(texts) + 1) + code, return_index=True)
    once = np.sort(once)
    person, code = person[once], code[once]
    who, begins, sizes = np.unique(person, return_index=True, return_counts=True)
    enough = sizes >= number
    return who[enough], np.ascontiguousarray(code[begins[enough][:, None] + np.arange(number)])
