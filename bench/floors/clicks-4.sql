-- What `querycloak release clicks --max-keys-per-user 4` must compute, by DuckDB alone: read, each pair once per user,
-- the first four of each user, group.
WITH clicks AS (
    SELECT "user", query, url, min(time) AS earliest
    FROM read_csv($path, delim = '\t', quote = '', escape = '', header = true, columns = {
        'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'})
    WHERE url IS NOT NULL GROUP BY "user", query, url
),
bounded AS (
    SELECT query, url FROM (
        SELECT query, url, row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, url) AS place FROM clicks
    ) WHERE place <= 4
),
counts AS (SELECT query, url, count(*) AS n FROM bounded GROUP BY query, url)
SELECT count(*) AS keys, sum(n) AS volume FROM counts
