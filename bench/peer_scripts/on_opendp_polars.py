"""The task `keys` on OpenDP's Polars context, in its own environment: LOG EPSILON DELTA PER_USER.

Four of a user's pairs are chosen by truncating twice: a row for each pair, then four rows. `truncate_num_groups`, which
is made for this, fails in 0.16 when it samples, and keeps a group too few when it takes the first: ranks begin at 1.
"""

import json
import sys

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")
log = pl.scan_csv(
    sys.argv[1],
    separator="\t",
    quote_char=None,
    new_columns=["user", "query", "time", "rank", "url"],
    schema_overrides=[pl.String] * 5,
)
clicks = log.filter(pl.col("url").is_not_null()).with_columns(key=pl.col("query") + "\t" + pl.col("url"))
context = dp.Context.compositor(
    data=clicks.select("user", "key"),
    privacy_unit=dp.unit_of(contributions=1, identifier="user"),
    privacy_loss=dp.loss_of(epsilon=float(sys.argv[2]), delta=float(sys.argv[3])),
    split_evenly_over=1,
)
query = (
    context.query()
    .truncate_per_group(1, by=["key"])
    .truncate_per_group(int(sys.argv[4]))
    .group_by("key")
    .agg(dp.len(signed=True))
)
print(json.dumps({"released": query.release().collect().height}))
