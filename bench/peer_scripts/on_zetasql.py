"""The task `keys` on ZetaSQL (GoogleSQL), in its own environment: LOG EPSILON DELTA PER_USER.

The reference implementation of Google's SQL, compiled to WebAssembly. Bounds make a user count once in a group.
"""

import csv
import json
import sys

from zetasql.api import CatalogBuilder, PreparedQuery, TableBuilder, create_table_content
from zetasql.types import (
    AnalyzerOptions,
    LanguageFeature,
    LanguageOptions,
    ResolvedASTRewrite,
    TypeKind,
    ZetaSQLBuiltinFunctionOptions,
)

STATEMENT = """
SELECT WITH DIFFERENTIAL_PRIVACY
    OPTIONS (epsilon = {}, delta = {}, max_groups_contributed = {}, privacy_unit_column = user)
    pair, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n
FROM clicks GROUP BY pair
"""
with open(sys.argv[1], newline="") as file:
    next(file)
    lines = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    rows = [[user, f"{query}\t{url}"] for user, query, _, _, url in lines if url]
table = TableBuilder("clicks").add_column("user", TypeKind.TYPE_STRING).add_column("pair", TypeKind.TYPE_STRING).build()
language = LanguageOptions.maximum_features()
private = [feature for feature in LanguageFeature if "DIFFERENTIAL_PRIVACY" in feature.name]
language.enabled_language_features = [*language.enabled_language_features, *private]
functions = ZetaSQLBuiltinFunctionOptions(language_options=language)
options = AnalyzerOptions(language_options=language, enabled_rewrites=[ResolvedASTRewrite.REWRITE_ANONYMIZATION])
prepared = (
    PreparedQuery.builder()
    .set_sql(STATEMENT.format(*sys.argv[2:5]))
    .set_analyzer_options(options)
    .set_catalog(CatalogBuilder("log").add_table(table).with_builtin_functions(functions).build())
    .set_table_content({"clicks": create_table_content(rows)})
    .prepare()
)
content = prepared.execute().content.table_data
print(json.dumps({"released": len(content.row) if content else 0}))
