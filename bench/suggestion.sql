-- Five suggestions after every query that a prefix of a test session ends with, as one would write it down:
-- every query that shares a url is compared. $train and $test are Parquet files.
CREATE TEMP TABLE rows AS
    SELECT "user", "time" AS at, query, url, false AS test FROM read_parquet($train)
    UNION ALL SELECT "user", "time" AS at, query, url, true AS test FROM read_parquet($test);
CREATE TEMP TABLE steps AS
    WITH seen AS (
        SELECT *, epoch_us(at) - epoch_us(lag(at) OVER own) > 1800000000 AS pause, query = lag(query) OVER own AS repeats
        FROM rows WINDOW own AS (PARTITION BY "user" ORDER BY at, query)
    ), marked AS (SELECT *, coalesce(pause, true) AS begins FROM seen)
    SELECT "user", query, test, sum(begins::INT) OVER so_far AS session, row_number() OVER so_far AS place
    FROM marked WHERE begins OR NOT repeats
    WINDOW so_far AS (PARTITION BY "user" ORDER BY at, query ROWS UNBOUNDED PRECEDING);
CREATE TEMP TABLE asked AS
    SELECT DISTINCT a.query FROM steps a JOIN steps b
    ON a."user" = b."user" AND a.session = b.session AND b.place = a.place + 1 WHERE a.test;
CREATE TEMP TABLE follows AS
    SELECT a.query, b.query AS other, count(*) / sum(count(*)) OVER (PARTITION BY a.query) AS share
    FROM steps a JOIN steps b ON a."user" = b."user" AND a.session = b.session AND a.place < b.place AND a.query <> b.query
    WHERE NOT a.test AND a.query IN (FROM asked) GROUP BY ALL;
CREATE TEMP TABLE clicks AS
    SELECT query, url, count(*) / sqrt(sum(count(*) ** 2) OVER (PARTITION BY query)) AS weight
    FROM rows WHERE url IS NOT NULL AND NOT test GROUP BY ALL;
SELECT count(*) FROM (
    SELECT query, other FROM (
        SELECT query, other, sum(score) AS score FROM (
            SELECT a.query, b.query AS other, 0.5 * sum(a.weight * b.weight) AS score
            FROM clicks a JOIN clicks b ON a.url = b.url AND a.query <> b.query
            WHERE a.query IN (FROM asked) GROUP BY ALL
            UNION ALL SELECT query, other, 0.5 * share FROM follows
        ) GROUP BY ALL
    ) QUALIFY row_number() OVER (PARTITION BY query ORDER BY round(score, 12) DESC, other) <= 5
);
