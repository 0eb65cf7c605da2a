"""OpenSearch's User Behavior Insights, versions 1.0 to 1.3, as they are in the wild.

Queries and events come mixed, as NDJSON, as bulk files with action lines, or as `index TAB json` lines.
Lines are read one by one (`UbiReader`); what needs several of them is one relational step (`joined_rows`):

- one privacy unit per client: its least user id if it ever has one, for all that the client did;
- one query per user and `query_id`, the earliest;
- clicks join their own user's query by `query_id`, and take over its time and text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.logs.blocks import LONGEST_RECORD, Block, Part, read_blocks
from querycloak.logs.checks import (
    CLICK_OF_ANOTHER,
    CLICK_WITHOUT_QUERY,
    KEPT,
    MISSING_USER,
    NOT_AN_OBJECT,
    REPEATED_QUERY_ID,
    USER_LEFT_OUT,
    Candidates,
    mark,
)
from querycloak.logs.choices import Choices
from querycloak.logs.fields import integers
from querycloak.logs.files import LogFile
from querycloak.logs.formats.json_lines import JsonObject, as_text, member, no_rows, objects_of, spans_of
from querycloak.logs.formats.marked_rows import any_longer, contents_of, line_numbers, query_texts, with_origin
from querycloak.logs.formats.signs import has_our_columns, mark_other_formats, mark_other_objects
from querycloak.logs.schema import COLUMNS
from querycloak.logs.times import iso_or_epoch
from querycloak.logs.urls import url_texts
from querycloak.words.spans import Mask, Spans, number_array

QUERY, EVENT = 1, 2
_IDS = ("query_id", "client_id", "user_id")
_ACTIONS = ("index", "create", "update", "delete")
_OBJECT_IDS = (
    "event_attributes.object.object_id",
    "event_attributes.object.internal_id",
    "event_attributes.object_id",
    "object_id",
)
_POSITIONS = (
    "event_attributes.position.ordinal",
    "event_attributes.position.index",
    "event_attributes.position",
    "event_attributes.ordinal",
    "position.ordinal",
    "position",
)
DOCUMENTS = pa.schema(
    [
        pa.field("kind", pa.int8()),
        pa.field("query_id", pa.string()),
        pa.field("client", pa.string()),
        pa.field("account", pa.string()),
        pa.field("time", pa.timestamp("us")),
        pa.field("query", pa.string()),
        pa.field("rank", pa.int32()),
        pa.field("url", pa.string()),
        pa.field("code", pa.int16()),
    ]
)


def is_action_line(value: JsonObject | None) -> bool:
    """Whether this is a bulk file's instruction, not a document."""
    if value is None or len(value) != 1:
        return False
    (name, body), *_ = value.items()
    return name in _ACTIONS and isinstance(body, dict)


def is_ubi(value: JsonObject | None) -> bool:
    """Whether this is a UBI document, or an action line of a bulk file."""
    return value is not None and (is_action_line(value) or _kind(_document(value)) > 0)


class UbiReader:
    """Reads documents; which query a click belongs to, and who asked it, is settled by `joined_rows`."""

    schema = DOCUMENTS
    divisible = True
    holds_clicks = True

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def blocks(self, file: LogFile, part: Part, *, numbered: bool = False) -> Iterator[Block]:
        """The lines of a part of a file."""
        return read_blocks(file, part, numbered=numbered)

    def parse(self, block: Block, choices: Choices, *, origin: bool = False) -> pa.RecordBatch:
        """The block's documents, each with its code."""
        records = block.records()
        objects, undecodable = objects_of(records, self._encoding)
        lines = line_numbers(block, records)
        documents = np.array([not is_action_line(value) for value in objects], np.bool_)
        if not documents.all():
            records, undecodable, lines = records.where(documents), undecodable[documents], lines[documents]
            objects = list(itertools.compress(objects, documents))
        too_long = any_longer([records], LONGEST_RECORD) | block.overlong
        batch, fields = _batch([_document(value) for value in objects], undecodable, too_long, choices)
        codes = mark_other_formats(batch.column("code").to_numpy(), records, "json")
        codes = mark_other_objects(codes, objects, NOT_AN_OBJECT, has_our_columns)
        batch = batch.set_column(batch.num_columns - 1, "code", pa.array(codes))
        if not origin:
            return batch
        return with_origin(batch, codes, block.file, lines, fields, contents_of(records))


def _batch(
    documents: list[JsonObject], undecodable: Mask, too_long: Mask, choices: Choices
) -> tuple[pa.RecordBatch, NDArray[np.int32]]:
    kinds = np.array([_kind(value) for value in documents], np.int8)
    ids = [spans_of([as_text(value.get(name)) for value in documents]).trimmed() for name in _IDS]
    rows = _candidates(documents, kinds, ids, undecodable, too_long, choices)
    # Ids count even in documents that are set aside: they tell which client is whose.
    usable = [span.blank(rows.overlong) for span in ids]
    columns = [
        pa.array(kinds),
        *(span.strings(span.lengths > 0) for span in usable),
        number_array(rows.time, pa.timestamp("us"), rows.time_readable),
        rows.query,
        number_array(rows.rank, pa.int32(), rows.rank_readable),
        rows.url.strings(rows.url.lengths > 0),
        pa.array(mark(rows)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DOCUMENTS), rows.fields


def _candidates(
    documents: list[JsonObject],
    kinds: NDArray[np.int8],
    ids: list[Spans],
    undecodable: Mask,
    too_long: Mask,
    choices: Choices,
) -> Candidates:
    events = kinds == EVENT
    clicks = events & np.array([value.get("action_name") in choices.click_actions for value in documents], np.bool_)
    # Most documents are impressions and the like: only clicks are searched for what was clicked, and where.
    clicked = [value if click else None for value, click in zip(documents, clicks.tolist(), strict=True)]
    query = spans_of([as_text(value.get("user_query")) for value in documents])
    url = spans_of([None if value is None else _first_text(value, _OBJECT_IDS) for value in clicked])
    overlong = too_long | any_longer([*ids, query, url])
    rank, rank_readable = integers(spans_of([None if value is None else _position(value) for value in clicked]))
    time, time_readable = iso_or_epoch(spans_of([as_text(value.get("timestamp")) for value in documents]))
    return Candidates(
        user=Spans.empty(len(documents)),
        time=time,
        time_readable=time_readable,
        query=query_texts(query.blank(overlong | events), choices),
        url=url_texts(url.blank(overlong | ~clicks), choices, with_scheme_only=True),
        rank=rank,
        rank_readable=rank_readable,
        rank_present=no_rows(len(documents)),  # a position that cannot be read is a position not told
        choices=choices,
        undecodable=undecodable,
        overlong=overlong,
        wrong_fields=clicks & (url.lengths == 0),
        fields=np.array([len(value) for value in documents], np.int32),
        application=pa.array([as_text(value.get("application")) for value in documents], pa.string()),
        not_an_object=kinds == 0,
        other_action=events & ~clicks,
        user_known_later=True,
        query_elsewhere=events,
    )


def joined_rows(documents: ir.Table, choices: Choices) -> ir.Table:
    """The marked rows of a log from its documents: one for each document, kept or set aside.

    What becomes of a user's documents depends on that user's documents alone: otherwise one person could move what
    others contribute, and no bound per user would hold.
    """
    documents = _mark_users(_with_user(documents), choices)
    fine = documents.code == KEPT
    queries = _mark_repeats(documents.filter(fine & (documents.kind == QUERY)))
    clicks = _join_clicks(documents.filter(fine & (documents.kind == EVENT)), queries.filter(queries.code == KEPT))
    return _emptied(ibis.union(_rows_of(queries), _rows_of(clicks), _rows_of(documents.filter(~fine))))


def _with_user(documents: ir.Table) -> ir.Table:
    """Each document with its privacy unit: the least account that its client ever has, else the client.

    A client is never shared out among units, so a unit is some clients, whole, and whose a client is follows from that
    client's documents alone: adding or taking away a unit leaves all other clients, and whose they are, as they were.
    A document without a client is its account's.
    """
    owned = documents.filter(documents.client.notnull() & documents.account.notnull())
    accounts = owned.group_by("client").agg(owner=owned.account.min())
    known = documents.left_join(accounts, "client").drop("client_right")
    return known.mutate(user=ibis.coalesce(known.owner, known.client, known.account)).drop("owner")


def _mark_users(documents: ir.Table, choices: Choices) -> ir.Table:
    """L101: a document of nobody. L203: of a user left out, by any of its names."""
    code = _code((documents.code == KEPT) & documents.user.isnull(), MISSING_USER, documents.code)
    if choices.leave_out:
        names = sorted(choices.leave_out)
        left_out = documents.user.isin(names) | documents.client.isin(names) | documents.account.isin(names)
        code = _code((code == KEPT) & left_out.fill_null(False), USER_LEFT_OUT, code)
    return documents.mutate(code=code)


def _mark_repeats(queries: ir.Table) -> ir.Table:
    """L205: all but the user's earliest query of a query id."""
    place = ibis.row_number().over(group_by=[queries.query_id, queries.user], order_by=[queries.time, queries.query])
    repeated = queries.query_id.notnull() & (place > 0)
    return queries.mutate(code=_code(repeated, REPEATED_QUERY_ID, queries.code))


def _join_clicks(clicks: ir.Table, queries: ir.Table) -> ir.Table:
    """L107: a click whose query is not in the log. L110: a click on a query that only others asked."""
    named = queries.filter(queries.query_id.notnull())
    asked = named.select("query_id", "user", asked_at=named.time, text=named.query)
    anybodys = named.select("query_id", asked_by_somebody=True).distinct()
    joined = clicks.left_join(asked, ["query_id", "user"]).drop("query_id_right", "user_right")
    joined = joined.left_join(anybodys, "query_id").drop("query_id_right")
    lost = _code(joined.asked_by_somebody.isnull(), CLICK_WITHOUT_QUERY, ibis.literal(CLICK_OF_ANOTHER))
    return joined.mutate(
        code=ibis.ifelse(joined.text.isnull(), lost, joined.code.cast("int16")),
        time=joined.asked_at,
        query=joined.text,
    )


def _emptied(rows: ir.Table) -> ir.Table:
    """The rows; those set aside hold nothing but their code."""
    kept = rows.code == KEPT
    return rows.mutate(**{name: ibis.ifelse(kept, rows[name], ibis.null(rows[name].type())) for name in COLUMNS})


def _rows_of(documents: ir.Table) -> ir.Table:
    origin = [name for name in ("file", "line", "fields", "content") if name in documents.columns]
    return documents.select(*COLUMNS, "code", *origin)


def _code(condition: ir.BooleanValue, code: int, otherwise: ir.Value) -> ir.Value:
    return ibis.ifelse(condition, ibis.literal(code, "int16"), otherwise.cast("int16"))


def _document(value: JsonObject | None) -> JsonObject:
    """The document itself, out of a search hit if it was exported as one."""
    if value is None:
        return {}
    source = value.get("_source")
    return source if isinstance(source, dict) else value


def _kind(document: JsonObject) -> int:
    if "action_name" in document:
        return EVENT
    return QUERY if "user_query" in document else 0


def _position(document: JsonObject) -> str | None:
    for path in _POSITIONS:
        value = member(document, path)
        if isinstance(value, dict):  # the legacy form {"index": 3}
            value = value.get("index")
        text = as_text(value)
        if text is not None:
            return text
    return None


def _first_text(document: JsonObject, paths: tuple[str, ...]) -> str | None:
    texts: Iterator[Any] = (as_text(member(document, path)) for path in paths)
    return next((text for text in texts if text is not None), None)
