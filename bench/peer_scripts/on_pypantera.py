"""The task `replacement` on pypantera, in its own environment: LOG EPSILON VECTORS.

The mechanism of Feyisetan et al. (2020): noise on the vector of each word, then the nearest word. The package is called
`src` where it is installed. It brings no vectors, so it gets some of WordNet's nouns.
"""

import csv
import json
import sys

import pandas as pd
from src.EmbeddingPerturbationMechanism.cmp import CMP

if __name__ == "__main__":  # it reads vectors in several processes
    names = ["user", "query", "time", "rank", "url"]
    log = pd.read_csv(
        sys.argv[1], sep="\t", quoting=csv.QUOTE_NONE, dtype=str, keep_default_na=False, names=names, skiprows=1
    )
    searches = log[["user", "query", "time"]].drop_duplicates(ignore_index=True)
    mechanism = CMP({"embPath": sys.argv[3], "epsilon": float(sys.argv[2])})
    replaced = mechanism.obfuscateText(searches[["user", "query"]].copy(), 1)
    print(json.dumps({"released": len(replaced)}))
