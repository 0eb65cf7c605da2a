"""OpenSearch's User Behavior Insights, versions 1.0 to 1.3, as they are in the wild.

Queries and events come mixed, as NDJSON, as bulk files with action lines, or as `index TAB json` lines.
Lines are read one by one (`UbiReader`); what needs several of them is one relational step (`joined_rows`):

- one privacy unit per client: its least user id if it ever has one, for all that the client did;
- one query per user and `query_id`, the earliest;
- clicks join their own user's query by `query_id`, and take over its time and text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from querycloak.logs.choices import Choices
from querycloak.logs.formats.marked_rows import any_longer, contents_of, line_numbers, query_texts, with_origin
from querycloak.logs.formats.shown_results import lists_of, shown_texts
from querycloak.logs.formats.signs import has_our_columns, mark_other_formats, mark_other_objects
from querycloak.logs.formats.ubi_documents import (
    EVENT,
    QUERY,
    Documents,
    WantedDocuments,
    read_documents,
    shown_lists,
    unique_actions,
)
from querycloak.logs.reading.blocks import LONGEST_RECORD, Block, Part, read_blocks
from querycloak.logs.reading.checks import (
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
from querycloak.logs.reading.encodings import to_utf8
from querycloak.logs.reading.fields import integers
from querycloak.logs.reading.files import LogFile
from querycloak.logs.reading.schema import COLUMNS, REQUIRED, SHOWN, with_records
from querycloak.logs.reading.times import iso_or_epoch
from querycloak.logs.reading.urls import url_texts
from querycloak.text.spans import Mask, Spans, number_array

IMPRESSION = 3
"""The kind of an event by which a result was shown; like all events that are no clicks, it is no row (L204)."""
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


class UbiReader:
    """Reads documents; which query a click belongs to, and who asked it, is settled by `joined_rows`."""

    schema = DOCUMENTS
    divisible = True
    other_columns: tuple[str, ...] = ()
    holds_clicks = True
    views = SHOWN
    repeats_searches = False

    def __init__(self, encoding: str = "utf-8", attributes: Sequence[str] = ()) -> None:
        self._encoding, self._attributes = encoding, tuple(attributes)

    def blocks(self, file: LogFile, part: Part, *, numbered: bool = False) -> Iterator[Block]:
        """The lines of a part of a file."""
        return read_blocks(file, part, numbered=numbered)

    def parse(
        self,
        block: Block,
        choices: Choices,
        *,
        origin: bool = False,
        clicks: bool = True,  # noqa: ARG002 (which user a search is of, its events tell)
        views: bool = False,
    ) -> pa.RecordBatch:
        """The block's documents, each with its code."""
        records = block.records()
        lines = line_numbers(block, records)
        decoded, undecodable = to_utf8(records, self._encoding)
        wanted = WantedDocuments(choices.click_actions, self._attributes, views)
        documents = read_documents(decoded, wanted, counted=origin)
        if documents.instructions.any():
            kept = ~documents.instructions
            records, decoded, undecodable, lines = (
                records.where(kept),
                decoded.where(kept),
                undecodable[kept],
                lines[kept],
            )
            documents = documents.where(kept)
        too_long = any_longer([records], LONGEST_RECORD) | block.overlong
        shown = shown_lists(decoded, documents.kinds == QUERY) if views else None
        batch = _batch(documents, undecodable, too_long, choices, shown)
        codes = mark_other_formats(batch.column("code").to_numpy(), records, "json")
        codes = mark_other_objects(codes, decoded, NOT_AN_OBJECT, has_our_columns)
        batch = batch.set_column(batch.num_columns - 1, "code", pa.array(codes))
        if not origin:
            return batch
        return with_origin(batch, codes, block.file, lines, documents.counts, contents_of(records))

    def action_counts(self, blocks: Iterable[Block]) -> dict[str, int]:
        """Number of events by the name of their action, the most frequent first; the name of none is empty."""
        counts: Counter[str] = Counter()
        for block in blocks:
            decoded, _ = to_utf8(block.records(), self._encoding)
            for name, rows in zip(*unique_actions(decoded), strict=True):
                counts[name] += rows
        return dict(counts.most_common())


def _batch(
    documents: Documents, undecodable: Mask, too_long: Mask, choices: Choices, shown: list[Any] | None
) -> pa.RecordBatch:
    ids = [documents.texts[name].trimmed() for name in ("query_id", "client_id", "user_id")]
    rows = _candidates(documents, ids, undecodable, too_long, choices)
    # Ids count even in rejected documents: they tell which client is whose.
    usable = [span.blank(rows.overlong) for span in ids]
    kinds = np.where(documents.impressions, np.int8(IMPRESSION), documents.kinds)
    columns = [
        pa.array(kinds),
        *(span.strings(span.lengths > 0) for span in usable),
        number_array(rows.time, pa.timestamp("us"), rows.time_readable),
        rows.query,
        number_array(rows.rank, pa.int32(), rows.rank_readable),
        rows.url.strings(rows.url.lengths > 0),
        *(text.strings(text.lengths > 0) for text in rows.attributes.values()),
    ]
    if shown is not None:
        columns.append(shown_texts(lists_of(shown), choices, with_scheme_only=True))
    schema = with_records(DOCUMENTS, list(rows.attributes), None if shown is None else SHOWN)
    return pa.RecordBatch.from_arrays([*columns, pa.array(mark(rows))], schema=schema)


def _candidates(
    documents: Documents, ids: list[Spans], undecodable: Mask, too_long: Mask, choices: Choices
) -> Candidates:
    events, clicks, texts = documents.kinds == EVENT, documents.clicks, documents.texts
    query, url, application = texts["user_query"], texts["object"], texts["application"]
    attributes = {name: texts[name].trimmed() for name in choices.attributes}
    overlong = too_long | any_longer([*ids, query, url, *attributes.values()])
    rank, rank_readable = integers(texts["position"])
    time, time_readable = iso_or_epoch(texts["timestamp"])
    return Candidates(
        user=Spans.empty(len(documents)),
        time=time,
        time_readable=time_readable,
        query=query_texts(query.blank(overlong | events), choices),
        url=url_texts(url.blank(overlong | ~(clicks | documents.impressions)), choices, with_scheme_only=True),
        rank=rank,
        rank_readable=rank_readable,
        rank_present=np.zeros(len(documents), np.bool_),  # a position that cannot be read is a position not told
        choices=choices,
        undecodable=undecodable,
        overlong=overlong,
        wrong_fields=clicks & (url.lengths == 0),
        fields=documents.counts,
        application=application.strings(application.lengths > 0) if choices.applications else None,
        not_an_object=documents.kinds == 0,
        other_action=events & ~clicks,
        user_known_later=True,
        query_elsewhere=events,
        attributes={name: text.blank(overlong) for name, text in attributes.items()},
    )


def joined_rows(documents: ir.Table, choices: Choices) -> ir.Table:
    """The marked rows of a log from its documents: one for each document, kept or rejected.

    What becomes of a user's documents depends on that user's documents alone: otherwise one person could move what
    others contribute, and no bound per user would hold.
    """
    documents = _mark_users(_with_user(documents), choices)
    fine, names = documents.code == KEPT, choices.attributes
    queries = _mark_repeats(documents.filter(fine & (documents.kind == QUERY)))
    asked = queries.filter(queries.code == KEPT)
    clicks = _join_clicks(documents.filter(fine & (documents.kind == EVENT)), asked, names)
    parts = (_rows_of(each, names) for each in (queries, clicks, documents.filter(~fine)))
    return _emptied(ibis.union(*parts), names)


def joined_views(documents: ir.Table, choices: Choices) -> tuple[ir.Table, ir.Table]:
    """The searches of a log with their lists of results, and the results that events tell (`clicked` or only shown)."""
    names = choices.attributes
    documents = _mark_users(_with_user(documents), choices)
    fine = documents.code == KEPT
    queries = _mark_repeats(documents.filter(fine & (documents.kind == QUERY)))
    asked = queries.filter(queries.code == KEPT)
    shown = documents.filter((documents.kind == IMPRESSION) & documents.user.notnull() & documents.url.notnull())
    shown = shown.mutate(code=ibis.literal(KEPT, "int16"))
    events = ibis.union(
        _join_clicks(documents.filter(fine & (documents.kind == EVENT)), asked, names).mutate(clicked=True),
        _join_clicks(shown, asked, names).mutate(clicked=False),
    )
    joined = events.filter(events.code == KEPT)
    return asked.select(*REQUIRED, *names, "shown"), joined.select(*COLUMNS, *names, "clicked")


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
    """L101: a document without a user. L203: of a user left out, by any of its names."""
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


def _join_clicks(clicks: ir.Table, queries: ir.Table, attributes: Sequence[str]) -> ir.Table:
    """L107: a click whose query is not in the log. L110: a click on a query that only others asked.

    Attributes are those of the query; where it has none, those of the click.
    """
    named = queries.filter(queries.query_id.notnull())
    theirs = {f"{name}_of_query": named[name] for name in attributes}
    asked = named.select("query_id", "user", asked_at=named.time, text=named.query, **theirs)
    anybodys = named.select("query_id", asked_by_somebody=True).distinct()
    joined = clicks.left_join(asked, ["query_id", "user"]).drop("query_id_right", "user_right")
    joined = joined.left_join(anybodys, "query_id").drop("query_id_right")
    lost = _code(joined.asked_by_somebody.isnull(), CLICK_WITHOUT_QUERY, ibis.literal(CLICK_OF_ANOTHER))
    return joined.mutate(
        code=ibis.ifelse(joined.text.isnull(), lost, joined.code.cast("int16")),
        time=joined.asked_at,
        query=joined.text,
        **{name: ibis.coalesce(joined[f"{name}_of_query"], joined[name]) for name in attributes},
    )


def _emptied(rows: ir.Table, attributes: Sequence[str]) -> ir.Table:
    """The rows; rejected ones hold nothing but their code."""
    kept, names = rows.code == KEPT, (*COLUMNS, *attributes)
    return rows.mutate(**{name: ibis.ifelse(kept, rows[name], ibis.null(rows[name].type())) for name in names})


def _rows_of(documents: ir.Table, attributes: Sequence[str]) -> ir.Table:
    origin = [name for name in ("file", "line", "fields", "content") if name in documents.columns]
    return documents.select(*COLUMNS, *attributes, "code", *origin)


def _code(condition: ir.BooleanValue, code: int, otherwise: ir.Value) -> ir.Value:
    return ibis.ifelse(condition, ibis.literal(code, "int16"), otherwise.cast("int16"))
