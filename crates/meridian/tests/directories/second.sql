-- What is recorded behind the checkpoint.
CREATE SCHEMA more;
CREATE TYPE more.size AS ENUM ('small', 'large');
CREATE TABLE more.boxes (id INT PRIMARY KEY, is more.size, owner INT REFERENCES people (id));
INSERT INTO more.boxes VALUES (1, 'small', 1), (2, 'large', 3), (3, NULL, NULL);
CREATE TABLE visits (
    place TEXT, day INT, n INT DEFAULT 1, PRIMARY KEY (place, day)
) PARTITION BY LIST (place);
CREATE TABLE visits_home PARTITION OF visits FOR VALUES IN ('home', 'garden');
INSERT INTO visits VALUES ('home', 1), ('garden', 2);
CREATE TABLE written (what TEXT, id INT);
CREATE FUNCTION writes_down() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO written VALUES (TG_OP, NEW.id);
    RETURN NEW;
END $$;
CREATE TRIGGER boxes_written AFTER INSERT OR UPDATE ON more.boxes FOR EACH ROW EXECUTE FUNCTION writes_down();
UPDATE more.boxes SET is = 'large' WHERE id = 1;
CREATE PROCEDURE renames(who INT, new_name TEXT) LANGUAGE sql AS
    'UPDATE people SET name = new_name WHERE id = who';
CALL renames(3, 'Grace H.');
CREATE MATERIALIZED VIEW pages_by_writer AS SELECT writer, sum(pages) AS pages FROM letters GROUP BY writer;
ALTER TABLE letters ADD COLUMN read BOOLEAN DEFAULT false;
UPDATE letters SET read = true WHERE writer = 1;
DELETE FROM people WHERE id = 2;
SELECT nextval('numbers');
