-- What `querycloak inspect` counts, by DuckDB alone: one statement, one reading of the file.
WITH log AS MATERIALIZED (
    SELECT "user", time, query, url FROM read_csv($path, delim = '\t', quote = '', escape = '', header = true, columns = {
        'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'})
),
steps AS (
    SELECT time, lag(time) OVER (PARTITION BY "user" ORDER BY time) AS before FROM log
),
people AS (
    SELECT count(*) FILTER (before IS NULL) AS users, min(time) AS first_time, max(time) AS last_time,
           count(*) FILTER (before IS NULL OR time - before > INTERVAL 30 MINUTE) AS sessions
    FROM steps
),
by_query AS (
    SELECT query, count(*) AS searches, min("user") = max("user") AS one_user,
           length(query) - length(replace(query, ' ', '')) + 1 AS words
    FROM (SELECT DISTINCT "user", time, query FROM log) GROUP BY query
),
queries AS (
    SELECT sum(searches) AS searches, count(*) AS distinct_queries, avg(one_user::INT) AS one_user_share,
           sum(words * searches) / sum(searches) AS words_per_query FROM by_query
),
pairs AS (
    SELECT sum(clicks) AS clicks, count(*) AS distinct_pairs
    FROM (SELECT query, url, count(*) AS clicks FROM log WHERE url IS NOT NULL GROUP BY query, url)
)
SELECT * FROM people, queries, pairs
