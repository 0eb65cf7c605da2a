"""The task `keys` on PipelineDP, in its own environment: LOG EPSILON DELTA PER_USER.

Of its settings, the one that releases most: Gaussian noise, and a threshold on the noisy numbers themselves.
"""

import csv
import json
import sys

import pipeline_dp

with open(sys.argv[1], newline="") as file:
    next(file)
    lines = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    rows = [(user, (query, url)) for user, query, _, _, url in lines if url]
budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=float(sys.argv[2]), total_delta=float(sys.argv[3]))
engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
parameters = pipeline_dp.AggregateParams(
    metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
    noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
    max_partitions_contributed=int(sys.argv[4]),
    max_contributions_per_partition=1,
    post_aggregation_thresholding=True,
)
extractors = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda _: 0
)
result = engine.aggregate(rows, parameters, extractors)
budget.compute_budgets()
print(json.dumps({"released": len(list(result))}))
