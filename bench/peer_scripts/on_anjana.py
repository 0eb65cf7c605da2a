"""The task `k-anonymity` on anjana, in its own environment: LOG K.

The table has a row for each user and pair; whatever is in a class of fewer than k rows may be left out, all of it.
"""

import csv
import json
import sys

import pandas as pd
from anjana.anonymity import k_anonymity

names = ["user", "query", "time", "rank", "url"]
log = pd.read_csv(
    sys.argv[1], sep="\t", quoting=csv.QUOTE_NONE, dtype=str, keep_default_na=False, names=names, skiprows=1
)
table = log.loc[log["url"] != "", ["user", "query", "url"]].drop_duplicates(ignore_index=True)
hierarchies = {column: {0: table[column].to_numpy()} for column in ("query", "url")}
kept = k_anonymity(table, ["user"], ["query", "url"], int(sys.argv[2]), 100, hierarchies)
print(json.dumps({"released": len(kept.groupby(["query", "url"]))}))
