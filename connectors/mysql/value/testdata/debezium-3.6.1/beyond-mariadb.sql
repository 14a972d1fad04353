CREATE DATABASE beyond CHARACTER SET utf8mb4;
CREATE TABLE beyond.own (id int PRIMARY KEY, u uuid, i4 inet4, i6 inet6, co varchar(30) COMPRESSED, cb blob COMPRESSED);
INSERT INTO beyond.own VALUES (1, '123e4567-e89b-12d3-a456-426655440000', '192.168.0.1', '2001:db8::ff00:42:8329', REPEAT('c', 30), REPEAT('b', 200));
INSERT INTO beyond.own VALUES (2, '00000000-0000-0000-0000-000000000000', '0.0.0.0', '::', '', '');
INSERT INTO beyond.own VALUES (3, 'ffffffff-ffff-7fff-bfff-ffffffffffff', '255.255.255.255', '::ffff:1.2.3.4', 'short é', NULL);
INSERT INTO beyond.own VALUES (4, '0191f2a0-1234-7abc-8def-0123456789ab', NULL, '1:0:0:2::3', 'short é', NULL);
INSERT INTO beyond.own VALUES (5, NULL, NULL, '::1.2.3.4', 'short é', NULL);
