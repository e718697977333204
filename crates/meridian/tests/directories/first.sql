-- What a directory of each version is filled with before its first checkpoint.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN percent AS INT CHECK (VALUE BETWEEN 0 AND 100);
CREATE SEQUENCE numbers START 10 INCREMENT 5;
CREATE TABLE people (
    id INT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    feels mood DEFAULT 'ok',
    done percent DEFAULT 0,
    born DATE,
    tags TEXT[],
    facts JSONB,
    name_length INT GENERATED ALWAYS AS (length(name)) STORED,
    CHECK (name <> '')
);
COMMENT ON TABLE people IS 'Who there is';
INSERT INTO people (id, name, feels, done, born, tags, facts) VALUES
    (1, 'Ada', 'happy', 100, '1815-12-10', ARRAY['one', 'two'], '{"knows": ["Charles"]}'),
    (2, 'Charles', 'sad', 10, '1791-12-26', NULL, NULL),
    (3, 'Grace', DEFAULT, DEFAULT, '1906-12-09', '{}', '{}');
CREATE INDEX people_lower ON people (lower(name)) WHERE done > 5;
CREATE TABLE letters (
    id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    writer INT NOT NULL REFERENCES people ON DELETE CASCADE,
    pages NUMERIC(6, 2) CHECK (pages > 0),
    sent TIMESTAMPTZ
);
INSERT INTO letters (writer, pages, sent) VALUES (1, 2.5, '1843-07-01 10:00:00+00'), (2, 11, NULL);
CREATE VIEW happy_people AS SELECT id, name FROM people WHERE feels = 'happy';
CREATE FUNCTION doubled(n INT) RETURNS INT LANGUAGE sql IMMUTABLE AS 'SELECT 2 * n';
CREATE FUNCTION described(who INT) RETURNS TEXT LANGUAGE plpgsql AS $$
DECLARE found people;
BEGIN
    SELECT * INTO found FROM people WHERE id = who;
    RETURN found.name || ' is ' || found.feels;
END $$;
CREATE TABLE measured (at DATE NOT NULL, value INT, PRIMARY KEY (at)) PARTITION BY RANGE (at);
CREATE TABLE measured_2024 PARTITION OF measured FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE measured_rest PARTITION OF measured DEFAULT;
INSERT INTO measured VALUES ('2024-03-01', 1), ('2025-03-01', 2), ('2024-04-01', 3);
CREATE ROLE reader LOGIN;
GRANT SELECT ON people TO reader;
ALTER ROLE reader SET statement_timeout = '7s';
SELECT nextval('numbers'), nextval('numbers');
