-- What task counts must compute for a release of clicks that counts each user's first 32 pairs, by DuckDB alone: the
-- users of every pair, those counted, the release beside both; bias, its two parts, and the drop rate from 10 users on.
WITH held AS (
    -- Ties in time break by rank, then by query and url; ranks from 1,023 on count as equal.
    SELECT "user", query, url, min(epoch_us(time) * 1024 + least(greatest(coalesce(rank, 1023), 0), 1023)) AS earliest
    FROM read_csv($path, delim = '\t', quote = '', escape = '', header = true, columns = {
        'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'})
    WHERE url IS NOT NULL GROUP BY "user", query, url
),
users AS (SELECT query, url, count(*) AS n FROM held GROUP BY query, url),
counted AS (
    SELECT query, url, count(*) AS n FROM (
        SELECT query, url, row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, url) AS place FROM held
    ) WHERE place <= 32 GROUP BY query, url
),
compared AS (
    SELECT users.n AS n, counted.n AS counted, released.count AS published
    FROM users LEFT JOIN counted USING (query, url) LEFT JOIN read_parquet($release) AS released USING (query, url)
)
SELECT sum(published - n) / sum(n) FILTER (published IS NOT NULL) AS bias,
       sum(coalesce(counted, 0) - n) FILTER (published IS NOT NULL) / sum(n) FILTER (published IS NOT NULL) AS bounding,
       avg((published IS NULL)::INT) FILTER (n >= 10) AS drop_rate
FROM compared
