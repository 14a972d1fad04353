insert into s.types values (
  :id + 1, true, 32767, 2147483647, 9223372036854775807, 1.5, 2.25, 12345.6789, 1234567890, 123456789.125,
  '1234.56', 'ab', 'varchar', 'tëxt', '\x00ff10', '1', '10101', '101', '2024-02-29', '12:34:56.789012', '12:34:56', '12:34:56.789', '12:34:56.789+02',
  '2024-02-29 12:34:56.789012', '2024-02-29 12:34:56', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789012+02', '1 year 2 mons 3 days 04:05:06.789', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
  '{"a": 1,  "b": [1, 2]}', '{"b": 1, "a": null}', '<a>x</a>', 'k=>v, n=>null', 'it''s ok', 12.50, '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
  '(1.5,-2)', '{1,2,3}', '[1,5)', '[1.5,)', '[2024-01-01,2024-02-01)', '[2024-01-01 00:00+00,2024-02-01 00:00+00)', '[2024-01-01,2024-02-01)',
  '{1,null,3}', '{"a","b c",null}', '{1.50,2.25}', '{2024-01-01,1999-12-31}', '{"2024-01-01 00:00:00+00"}', '{sad,happy}', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}', 26, 'a:1 cat:2', '(1,x)');
insert into s.types (id) values (:id + 2);
insert into s.types (id, n, n0, n2, f4, f8, d, ti, ts, tstz, iv, m, t, ba) values
  (:id + 3, -0.000001, -1, -0.5, '-0', 'Infinity', '1969-12-31', '00:00:00', '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59.999999+00', '-1 mons -00:00:00.000001', '-0.01', '', ''),
  (:id + 4, 1e20, 0, 0, 'NaN', '-Infinity', '9999-12-31', '23:59:59.999999', '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999999+00', '178 years', '-92233720368547758.08', E'line\nquote"\\', '\x'),
  (:id + 5, 3.10, 5, 3.100, 1e-7, 1e21, '0001-01-01', '24:00:00', '0001-01-01 00:00:00', '0001-01-01 00:00:00+00', '00:00:00', '0', 'null', '\xdeadbeef');
insert into s.defaults (id) values (:id + 1);
insert into s.toast values (:id + 1, 1, repeat('x', 3000), repeat('o', 3000)), (:id + 2, 1, 'short', null);
insert into s.toast_full values (:id + 1, 1, repeat('y', 3000));
insert into s.keyless values (:id + 1, 'one'), (:id + 1, 'one'), (null, null);
insert into s.composite values (:id + 1, 'k', 'v'), (:id + 2, 'k', null);
insert into s.by_index values (:id + 1, 2, 'v');
insert into s.parted values (:id + 1, 'eu', 'v'), (:id + 2, 'us', 'v');
insert into s."Mixed Case" values (:id + 1, 'a', 'ü', 3);
insert into s.secret values (:id + 1, '123456', 'somebody@example.com', 'a longer note', 'gone'), (:id + 2, null, null, null, null);
insert into s.generated (id, a) values (:id + 1, 21);
