-- One round of changes, number :round. Rows are picked by a hash of their key, so
-- a run with the same number of rounds touches the same rows.

-- Updates that leave the long text alone, and some that don't.
UPDATE apt.packages SET version = left(version, 150) || '+r' || :round, checked_at = clock_timestamp()
WHERE abs(hashtext(name)) % 1500 = :round % 1500;
UPDATE apt.packages SET details = details || E'\nround ' || :round || ': ' || repeat(summary || ' ', 40)
WHERE abs(hashtext(name)) % 4000 = (:round + 7) % 4000;
UPDATE apt.packages SET homepage = NULL, tags = ARRAY[]::text[], relations = relations || jsonb_build_object('round', :round)
WHERE abs(hashtext(name)) % 5000 = (:round + 11) % 5000;

-- Deletes, which take the dependencies along.
DELETE FROM apt.packages WHERE abs(hashtext(name)) % 3000 = (:round + 1000) % 3000;

-- Key changes, of a simple key and by cascade of a composite one.
UPDATE apt.packages SET name = name || '~' || :round WHERE abs(hashtext(name)) % 4500 = (:round + 2000) % 4500;

-- New rows, and in one transaction a key that goes and comes back.
BEGIN;
INSERT INTO apt.packages
SELECT name || '-copy-' || :round, version, source, maintainer_id, section_id, priority, essential, multi_arch,
       installed_kib, size_bytes, expansion, weight, score, homepage, tags, 'Ünïcödé “copy” 𝄞 of ' || summary, details,
       relations, sha256, gen_random_uuid(), built_on, clock_timestamp(), checked_at, daily_at
FROM apt.packages WHERE abs(hashtext(name)) % 6000 = (:round + 3000) % 6000;
INSERT INTO apt.dependencies
SELECT name, 1, 'base-files', NULL, 1 FROM apt.packages WHERE name LIKE '%-copy-' || :round;
CREATE TEMP TABLE gone ON COMMIT DROP AS SELECT * FROM apt.sections WHERE id = 1 + :round % 20;
UPDATE apt.sections SET packages = packages + 1 WHERE id IN (SELECT id FROM gone);
COMMIT;
BEGIN;
CREATE TEMP TABLE gone ON COMMIT DROP AS
  SELECT * FROM apt.dependencies WHERE abs(hashtext(package)) % 9000 = :round % 9000;
DELETE FROM apt.dependencies AS d USING gone WHERE (d.package, d.position) = (gone.package, gone.position);
INSERT INTO apt.dependencies SELECT package, position, target, 'back in round ' || :round, alternatives FROM gone;
COMMIT;

-- One larger transaction every tenth round.
UPDATE apt.dependencies SET alternatives = alternatives + 1
WHERE :round % 10 = 5 AND abs(hashtext(target)) % 20 = (:round / 10) % 20;

UPDATE apt.maintainers SET email = 'round-' || :round || '@example.org', team = NOT team
WHERE id % 200 = :round % 200;

-- What is rolled back must arrive nowhere.
BEGIN;
UPDATE apt.packages SET summary = 'never committed' WHERE abs(hashtext(name)) % 2000 = :round % 2000;
INSERT INTO apt.events (kind) VALUES ('never committed');
ROLLBACK;

INSERT INTO apt.events (kind, subject, detail)
SELECT 'round', 'subject ' || n, jsonb_build_object('round', :round, 'n', n) FROM generate_series(1, 20) AS n;
