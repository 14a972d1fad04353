USE beyond;
CREATE TABLE partial (id int PRIMARY KEY, j json, n int, k json);
INSERT INTO partial VALUES (1, JSON_OBJECT('a', 1, 'b', JSON_ARRAY(1, 2, 3), 'long', REPEAT('x', 200), 'o', JSON_OBJECT('p q', 1, 'r"s', 2)), 1, JSON_ARRAY(REPEAT('y', 100), 2)), (2, '[]', 2, NULL), (3, NULL, 3, '{"x": {"y": {"z": "long enough text"}}}');
SET SESSION binlog_row_value_options = 'PARTIAL_JSON';
UPDATE partial SET j = JSON_SET(j, '$.a', 2), n = 5 WHERE id = 1;
UPDATE partial SET j = JSON_REMOVE(j, '$.b[1]') WHERE id = 1;
UPDATE partial SET j = JSON_SET(j, '$.o."p q"', 'n', '$.o."r\\"s"', 3), k = JSON_SET(k, '$[1]', 7) WHERE id = 1;
UPDATE partial SET j = JSON_REPLACE(j, '$.long', 'short') WHERE id = 1;
UPDATE partial SET j = JSON_SET(j, '$.new', 1) WHERE id = 1;
UPDATE partial SET j = '{"whole": true}' WHERE id = 2;
UPDATE partial SET n = 33 WHERE id = 3;
UPDATE partial SET k = JSON_SET(k, '$.x.y.z', 'changed') WHERE id = 3;
UPDATE partial SET k = JSON_ARRAY_INSERT(JSON_SET(k, '$.x.y.z', 'c2'), '$.x.y.z[0]', 1) WHERE id = 3;
UPDATE partial SET j = JSON_SET(j, '$.whole', JSON_OBJECT('deep', JSON_ARRAY(1.5, NULL, TRUE))) WHERE id = 2;
SET SESSION binlog_row_value_options = '';
CREATE TABLE documents (id int AUTO_INCREMENT PRIMARY KEY, j json);
INSERT INTO documents (j) VALUES (JSON_ARRAY(1e15, 1e14, 999999999999999.9, 123456789012345.6, 1e16, 1.5e15, 1e-5, 1e-14, 1e-15, 1e-16, 1.5e-15, 1.23456789012345e-10, 5e-324, 1.7976931348623157e308, -1e100, 0.0, -0.0, 1/3, 9007199254740993e0, 1e21, 1e22, 12345678901234567e5)),
 (JSON_OBJECT('t', CAST('00:00:00' AS TIME), 't2', CAST('838:59:59' AS TIME), 't3', CAST('-00:00:00.5' AS TIME(1)), 'd', CAST('0001-01-01' AS DATE), 'd2', CAST('9999-12-31 23:59:59.999999' AS DATETIME(6)))),
 (JSON_OBJECT('', 1, 'b', 2, 'aa', 3, 'é', 4, 'Z', 5)), ('"\\u0000\\u001f\\u007f\\u2028\\/é"'), ('{}'), ('[[[[]]]]'), ('true'), ('-1'), ('1.0'), ('18446744073709551615'), (JSON_ARRAY(CAST(0 AS DECIMAL(3,2)), CAST('-0.00' AS DECIMAL(3,2)), CAST('123.456' AS DECIMAL(65,30)), CAST(12 AS DECIMAL(2)))),
 (CAST(CAST(REPEAT('b', 300) AS BINARY) AS JSON)), (CAST(ST_GeomFromText('POINT(1 2)') AS JSON)), (JSON_ARRAY(REPEAT('z', 127), REPEAT('z', 128), REPEAT('z', 16384)));
