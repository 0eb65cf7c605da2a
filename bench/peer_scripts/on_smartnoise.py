"""The task `keys` on SmartNoise SQL, in its own environment: LOG EPSILON DELTA PER_USER.

Its `max_ids` bounds rows of a user, so each pair stands once for a user. A `Privacy` is not what a query costs in the
end: delta is lowered so that the cost, as SmartNoise itself tells it, is what was asked for.
"""

import csv
import json
import sys

import pandas as pd
import snsql

STATEMENT = "SELECT pair, COUNT(DISTINCT user) AS n FROM log.clicks GROUP BY pair"
epsilon, delta = float(sys.argv[2]), float(sys.argv[3])
names = ["user", "query", "time", "rank", "url"]
log = pd.read_csv(
    sys.argv[1], sep="\t", quoting=csv.QUOTE_NONE, dtype=str, keep_default_na=False, names=names, skiprows=1
)
log = log[log["url"] != ""]
clicks = pd.DataFrame({"user": log["user"], "pair": log["query"] + "\t" + log["url"]}).drop_duplicates()
columns = {"user": {"type": "string", "private_id": True}, "pair": {"type": "string"}}
metadata = {"": {"log": {"clicks": {"max_ids": int(sys.argv[4]), "rows": len(clicks), **columns}}}}


def reader_at(given: float) -> snsql.sql.PrivateReader:
    return snsql.from_df(clicks, privacy=snsql.Privacy(epsilon=epsilon, delta=given), metadata=metadata)


_, cost = reader_at(delta).get_privacy_cost(STATEMENT)
reader = reader_at(delta * delta / cost)
spent = reader.get_privacy_cost(STATEMENT)
if spent[0] > epsilon * 1.001 or spent[1] > delta * 1.001:
    raise ValueError(f"the query would cost {spent}")
print(json.dumps({"released": len(reader.execute(STATEMENT)) - 1}))
