UPDATE numbers SET t = 1, b10 = NULL WHERE id = 101;
UPDATE texts SET vbi = x'00', j = '{"b": 2}' WHERE id = 103;
UPDATE firm SET de = 2.25 WHERE id = 102;
DELETE FROM firm WHERE id = 101;
DELETE FROM times WHERE id = 101;
UPDATE charsets SET id = 201 WHERE id = 101;
