-- What `querycloak release query-pool` must count, by DuckDB alone, noise left out: rows whose query is in the pool; the
-- first eight of them that a user asked, and the first seven steps from one to the next, of those that come out.
CREATE TEMP TABLE rows AS
SELECT "user", time, query
FROM read_csv($path, delim = '\t', quote = '', escape = '', header = true, columns = {
    'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'})
SEMI JOIN read_parquet($pool) USING (query);

CREATE TEMP TABLE asked AS
SELECT query, count(*) AS n FROM (
    SELECT query FROM (SELECT "user", query, min(time) AS earliest FROM rows GROUP BY "user", query)
    QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, query) <= 8
) GROUP BY query;

SELECT count(*) AS keys, sum(n) AS volume FROM (
    SELECT query, next_query, count(*) AS n FROM (
        SELECT "user", query, next_query, min(time) AS earliest FROM (
            SELECT "user", time, lag(query) OVER history AS query, query AS next_query,
                   time - lag(time) OVER history AS pause
            FROM rows WINDOW history AS (PARTITION BY "user" ORDER BY time, query)
        )
        WHERE query <> next_query AND pause <= INTERVAL 30 MINUTE
            AND query IN (SELECT query FROM asked WHERE n > 20) AND next_query IN (SELECT query FROM asked WHERE n > 20)
        GROUP BY "user", query, next_query
        QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, next_query) <= 7
    ) GROUP BY query, next_query
)
