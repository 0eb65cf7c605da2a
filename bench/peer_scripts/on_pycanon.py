"""pycanon looks at what querycloak released (`k-anonymity --keys log`, as tsv), in its own environment: RELEASE K.

It tells the k of the table: the smallest number of users who share a query, and of those who share a query and url.
"""

import csv
import json
import sys

import pandas as pd
from pycanon import anonymity

log = pd.read_csv(sys.argv[1], sep="\t", quoting=csv.QUOTE_NONE, dtype=str, keep_default_na=False)
queries = log[["user", "query"]].drop_duplicates()
pairs = log.loc[log["url"] != "", ["user", "query", "url"]].drop_duplicates()
found = min(anonymity.k_anonymity(queries, ["query"]), anonymity.k_anonymity(pairs, ["query", "url"]))
if found < int(sys.argv[2]):
    raise ValueError(f"the release has k = {found}")
print(json.dumps({"released": len(pairs.groupby(["query", "url"])), "k": int(found)}))
