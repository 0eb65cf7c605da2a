"""The task `keys` on Tumult Analytics, in its own environment: LOG EPSILON DELTA PER_USER.

Two queries, half of epsilon each: which keys may be known, and how many users each of them has.
"""

import json
import os
import sys

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    QueryBuilder,
    Session,
)
from tmlt.core.utils.configuration import get_java11_config

epsilon, delta, per_user = float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
spark = SparkSession.builder.config(conf=get_java11_config()).master("local[2]").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
log = spark.read.csv(sys.argv[1], sep="\t", quote="", header=True).toDF("user", "query", "time", "rank", "url")
clicks = log.where("url is not null").select("user", sql.concat_ws("\t", "query", "url").alias("pair"))
session = Session.from_dataframe(
    ApproxDPBudget(epsilon, delta), "clicks", clicks, protected_change=AddRowsWithID("user")
)
bounded = QueryBuilder("clicks").enforce(MaxGroupsPerID("pair", per_user)).enforce(MaxRowsPerGroupPerID("pair", 1))
keys = session.evaluate(bounded.get_groups(["pair"]), ApproxDPBudget(epsilon / 2, delta)).cache()
counts = session.evaluate(bounded.groupby(KeySet.from_dataframe(keys)).count(), ApproxDPBudget(epsilon / 2, 0))
released = counts.count()
spark.stop()
print(json.dumps({"released": released}))
