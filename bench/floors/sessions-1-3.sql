-- What `querycloak release sessions --no-clicks --sessions-per-user 1 --queries-per-session 3` must compute, by DuckDB
-- alone: read, cut sessions at pauses of more than 30 minutes with repeats of a query as one, take the first three
-- queries of those with two or more, make every subsequence, once per user, the first four of each user, group.
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
),
sessions AS (
    SELECT "user", time AS began, q1, q2, CASE WHEN NOT ends3 THEN q3 END AS q3
    FROM ahead WHERE begins AND NOT ends2
),
sequences AS (
    SELECT "user", began, unnest(CASE WHEN q3 IS NULL THEN [[q1, q2]]
                                 ELSE [[q1, q2], [q1, q3], [q2, q3], [q1, q2, q3]] END) AS queries
    FROM sessions
),
once AS (SELECT "user", queries, min(began) AS earliest FROM sequences GROUP BY "user", queries),
bounded AS (
    SELECT queries FROM (
        SELECT queries, row_number() OVER (PARTITION BY "user" ORDER BY earliest, len(queries), queries) AS place
        FROM once
    ) WHERE place <= 4
),
counts AS (SELECT queries, count(*) AS n FROM bounded GROUP BY queries)
SELECT count(*) AS keys, sum(n) AS volume FROM counts
