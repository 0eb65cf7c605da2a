-- What the default of `querycloak release sessions` must compute, by DuckDB alone, noise left out: sessions of a user, cut at
-- pauses of more than 30 minutes, with repeats of a query as one; every subsequence of the first three queries once per
-- user, and of the first two, among which the bound chooses; each pair of a user once; then, for both tables, what
-- clicks.sql computes.
CREATE TEMP TABLE sessions AS
WITH steps AS (
    SELECT "user", time, query, lag(time) OVER history AS before, lag(query) OVER history AS last
    FROM read_csv($path, delim = '\t', quote = '', escape = '', header = true, columns = {
        'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'})
    WINDOW history AS (PARTITION BY "user" ORDER BY time, query)
),
queries AS (
    SELECT "user", time, query, before IS NULL OR time - before > INTERVAL 30 MINUTE AS begins
    FROM steps WHERE begins OR query <> last
),
ahead AS (
    SELECT "user", time, begins, query AS q1, lead(query, 1) OVER history AS q2, lead(query, 2) OVER history AS q3,
           lead(begins, 1) OVER history AS ends2, lead(begins, 2) OVER history AS ends3
    FROM queries WINDOW history AS (PARTITION BY "user" ORDER BY time, query)
)
SELECT "user", time AS began, q1, q2, CASE WHEN NOT ends3 THEN q3 END AS q3 FROM ahead WHERE begins AND NOT ends2;

CREATE TEMP TABLE pairs AS
SELECT "user", '2' || q1 || chr(31) || q2 AS queries, min(began) AS earliest FROM sessions GROUP BY "user", queries;

CREATE TEMP TABLE held AS
SELECT "user", queries, min(began) AS earliest FROM (
    SELECT "user", began, unnest(['2' || q1 || chr(31) || q2, '2' || q1 || chr(31) || q3, '2' || q2 || chr(31) || q3,
                                  '3' || q1 || chr(31) || q2 || chr(31) || q3]) AS queries
    FROM sessions
) WHERE queries IS NOT NULL GROUP BY "user", queries;

SELECT keys, count(*) FROM (SELECT least(count(*), 256) AS keys FROM held GROUP BY "user") GROUP BY keys;

CREATE TEMP TABLE beyond AS SELECT "user" FROM held GROUP BY "user" HAVING count(*) > 256;

CREATE TEMP TABLE first AS
SELECT * FROM held SEMI JOIN beyond USING ("user")
QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, queries) <= 256;

CREATE TEMP VIEW bounded AS SELECT * FROM held ANTI JOIN beyond USING ("user") UNION ALL SELECT * FROM first;

CREATE TEMP TABLE parts AS
SELECT "user", queries, substr(sha256('a secret of thirty-two characters' || part), 1, 6) AS part FROM (
    SELECT "user", queries, unnest(string_split(substr(queries, 2), chr(31))) AS part FROM bounded
);

CREATE TEMP TABLE shared AS
SELECT part FROM (
    SELECT part, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM (SELECT DISTINCT "user", part FROM parts)
) GROUP BY part HAVING sum(weight) > 1010;

CREATE TEMP TABLE bucketed AS
SELECT "user", queries, substr(sha256('a secret of thirty-two characters' || queries), 1, 6) AS bucket FROM (
    SELECT "user", queries FROM parts LEFT JOIN shared USING (part)
    GROUP BY "user", queries HAVING count(*) = count(shared.part)
);

CREATE TEMP TABLE sharing AS SELECT "user", bucket FROM bucketed GROUP BY "user", bucket HAVING count(*) > 1;

CREATE TEMP TABLE heavy AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight FROM bucketed
) GROUP BY bucket HAVING sum(weight) > 462;

CREATE TEMP TABLE heavier AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed JOIN heavy USING (bucket)
) GROUP BY bucket HAVING sum(weight) > 1155;

CREATE TEMP TABLE chosen AS
SELECT queries FROM (
    SELECT queries, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed JOIN heavier USING (bucket)
) GROUP BY queries HAVING sum(weight) > 2538;

SELECT count(*) AS keys, sum(n) AS volume FROM (
    SELECT queries, count(*) AS n FROM (
        SELECT queries FROM bounded SEMI JOIN chosen USING (queries)
        QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, queries) <= 4
    ) GROUP BY queries
)
