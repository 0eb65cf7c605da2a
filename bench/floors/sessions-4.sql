-- Plain SQL for what `querycloak release sessions` counts, with four keys of each user in both tables, by DuckDB alone:
-- clicks as in clicks-4.sql; and pairs of different queries of one session in their order, others between or not, cut at
-- pauses of more than 30 minutes. No selection, no noise.
CREATE TEMP TABLE log AS
SELECT * FROM read_csv($path, delim = '\t', quote = '', escape = '', header = true, columns = {
    'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'});

CREATE TEMP TABLE counted AS
WITH clicks AS (SELECT "user", query, url, min(time) AS earliest FROM log WHERE url IS NOT NULL GROUP BY "user", query, url)
SELECT query, url, count(*) AS n FROM (
    SELECT query, url, row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, url) AS place FROM clicks
) WHERE place <= 4 GROUP BY query, url;

WITH steps AS (
    SELECT "user", time, query, lag(time) OVER history AS before FROM log
    WINDOW history AS (PARTITION BY "user" ORDER BY time, query)
),
numbered AS (
    SELECT "user", time, query,
           sum((before IS NULL OR time - before > INTERVAL 30 MINUTE)::INT) OVER (PARTITION BY "user" ORDER BY time, query
               ROWS UNBOUNDED PRECEDING) AS session FROM steps
),
places AS (SELECT "user", session, query, min(time) AS first, max(time) AS last FROM numbered GROUP BY "user", session, query),
pairs AS (
    SELECT a."user", a.query, b.query AS next_query, min(a.first) AS earliest
    FROM places a JOIN places b ON a."user" = b."user" AND a.session = b.session
    WHERE a.first < b.last AND a.query <> b.query GROUP BY a."user", a.query, b.query
),
bounded AS (
    SELECT query, next_query FROM (
        SELECT query, next_query, row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, next_query) AS place
        FROM pairs
    ) WHERE place <= 4
)
SELECT (SELECT count(*) FROM counted) AS clicks, count(*) AS pairs FROM (
    SELECT query, next_query, count(*) AS n FROM bounded GROUP BY query, next_query
)
