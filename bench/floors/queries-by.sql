-- What `querycloak release queries --by country,week` must compute over public countries and weeks, by DuckDB alone, noise
-- left out: each query of a user once in each country and week; its queries once; how many queries users have, which
-- decides the bound; the first 256 of those who have more; which queries of a user share a bucket, and two rounds over the
-- weights of buckets; the weights of queries; the first 16 cells of each user among those that come out.
CREATE TEMP TABLE cells AS
SELECT "user", query, country, date_trunc('week', time) AS week, min(epoch_us(time)) AS earliest
FROM read_parquet($path) GROUP BY "user", query, country, week;

CREATE TEMP TABLE held AS SELECT "user", query, min(earliest) AS earliest FROM cells GROUP BY "user", query;

SELECT keys, count(*) FROM (SELECT least(count(*), 256) AS keys FROM held GROUP BY "user") GROUP BY keys;

CREATE TEMP TABLE beyond AS SELECT "user" FROM held GROUP BY "user" HAVING count(*) > 256;

CREATE TEMP TABLE first AS
SELECT * FROM held SEMI JOIN beyond USING ("user")
QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, query) <= 256;

CREATE TEMP VIEW bounded AS SELECT * FROM held ANTI JOIN beyond USING ("user") UNION ALL SELECT * FROM first;

CREATE TEMP TABLE bucketed AS
SELECT "user", query, substr(sha256('a secret of thirty-two characters' || query), 1, 16) AS bucket FROM bounded;

CREATE TEMP TABLE sharing AS SELECT "user", bucket FROM bucketed GROUP BY "user", bucket HAVING count(*) > 1;

CREATE TEMP TABLE heavy AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight FROM bucketed
) GROUP BY bucket HAVING sum(weight) > 327;

CREATE TEMP TABLE heavier AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed JOIN heavy USING (bucket)
) GROUP BY bucket HAVING sum(weight) > 817;

CREATE TEMP TABLE chosen AS
SELECT query FROM (
    SELECT query, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed JOIN heavier USING (bucket)
) GROUP BY query HAVING sum(weight) > 1779;

SELECT count(*) AS cells, sum(n) AS volume FROM (
    SELECT query, country, week, count(*) AS n FROM (
        SELECT query, country, week FROM cells SEMI JOIN chosen USING (query)
        QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, query) <= 16
    ) GROUP BY query, country, week
)
