SET NAMES utf8mb4;
SET sql_mode = '';
CREATE DATABASE types CHARACTER SET utf8mb4;
USE types;
CREATE TABLE numbers (id int PRIMARY KEY, t tinyint, tu tinyint unsigned, t1 tinyint(1), bo boolean, s smallint, su smallint unsigned, m mediumint, mu mediumint unsigned,
  i int, iu int unsigned, ig integer unsigned, iz int(6) zerofill, b bigint, bu bigint unsigned, f float, f24 float(24), f53 float(53), fmd float(7,3), fbig float(30,4),
  d double, dp double precision, dmd double(10,3), r real, de decimal(10,2), dbig decimal(65,30), d0 decimal(5), dz decimal(5,2) zerofill, du decimal(5,2) unsigned, nu numeric(3,3), fx fixed(8,1),
  y year, b1 bit, b1e bit(1), b8 bit(8), b10 bit(10), b64 bit(64));
CREATE TABLE texts (id int PRIMARY KEY, c char(5), v varchar(20), vb varchar(20) binary, nc nchar(4), nv nvarchar(4), tt tinytext, tx text, mt mediumtext, lt longtext, vbin varchar(20) collate utf8mb4_bin,
  bi binary(5), b1 binary, vbi varbinary(300), tb tinyblob, bl blob, mb mediumblob, lb longblob, e enum('a','b,c','d''e','ü') , st set('x','y','z','ü'), j json, cb char(5) charset binary, tbin text charset binary);
CREATE TABLE charsets (id int PRIMARY KEY, latin1 varchar(40) charset latin1, latin2 varchar(40) charset latin2, cp1250 varchar(40) charset cp1250, cp1251 varchar(40) charset cp1251, cp850 varchar(40) charset cp850,
  cp852 varchar(40) charset cp852, cp866 varchar(40) charset cp866, greek varchar(40) charset greek, hebrew varchar(40) charset hebrew, koi8r varchar(40) charset koi8r, koi8u varchar(40) charset koi8u,
  latin5 varchar(40) charset latin5, latin7 varchar(40) charset latin7, tis620 varchar(40) charset tis620, gbk varchar(40) charset gbk, gb2312 varchar(40) charset gb2312, big5 varchar(40) charset big5,
  sjis varchar(40) charset sjis, cp932 varchar(40) charset cp932, ujis varchar(40) charset ujis, euckr varchar(40) charset euckr, utf16 varchar(40) charset utf16, utf32 varchar(40) charset utf32, ucs2 varchar(40) charset ucs2,
  utf8 varchar(40) charset utf8, ascii varchar(40) charset ascii, tl text charset latin1, e enum('é','b') charset latin1, s set('é','ü') charset latin1, eg enum('中','b') charset gbk);
CREATE TABLE times (id int PRIMARY KEY, d date, t time, t1 time(1), t3 time(3), t6 time(6), dt datetime, dt2 datetime(2), dt3 datetime(3), dt4 datetime(4), dt6 datetime(6),
  ts timestamp NULL, ts1 timestamp(1) NULL, ts3 timestamp(3) NULL, ts6 timestamp(6) NULL, y year);
CREATE TABLE firm (id int PRIMARY KEY, d date NOT NULL, t time NOT NULL, dt datetime NOT NULL, dt6 datetime(6) NOT NULL, ts timestamp NOT NULL DEFAULT '2020-01-01 00:00:00', y year NOT NULL, v varchar(5) NOT NULL,
  de decimal(5,2) NOT NULL, bi binary(3) NOT NULL, bu bigint unsigned NOT NULL, e enum('a','b') NOT NULL);
CREATE TABLE defaults (id int PRIMARY KEY, t tinyint DEFAULT 5, tn tinyint NOT NULL DEFAULT -3, su smallint unsigned DEFAULT 65535, i int DEFAULT 7, iu int unsigned NOT NULL DEFAULT 4294967295, b bigint DEFAULT -9, bu bigint unsigned DEFAULT 18446744073709551615, bo boolean DEFAULT true,
  f float DEFAULT 1.5, d double DEFAULT 1.1, de decimal(10,2) DEFAULT 3.5, den decimal(10,2) NOT NULL DEFAULT 0, v varchar(20) DEFAULT 'it''s', ve varchar(20) NOT NULL DEFAULT '', c char(4) DEFAULT 'x', e enum('a','b') DEFAULT 'b', st set('x','y') DEFAULT 'x,y',
  b1 bit DEFAULT b'1', b8 bit(8) DEFAULT b'101', bi binary(3) DEFAULT 'ab', vb varbinary(4) DEFAULT 'ab', y year DEFAULT 2020, da date DEFAULT '2020-02-03', ti time DEFAULT '01:02:03', ti3 time(3) DEFAULT '01:02:03.456',
  dt datetime DEFAULT '2020-02-03 04:05:06', dt6 datetime(6) DEFAULT '2020-02-03 04:05:06.123456', dn datetime NOT NULL DEFAULT CURRENT_TIMESTAMP, dnull datetime DEFAULT CURRENT_TIMESTAMP,
  ts timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, tsn timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, tsl timestamp NOT NULL DEFAULT '2020-02-03 04:05:06', ts3 timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  zd date DEFAULT '0000-00-00', zdn date NOT NULL DEFAULT '0000-00-00', zdt datetime NOT NULL DEFAULT '0000-00-00 00:00:00', zts timestamp NOT NULL DEFAULT '0000-00-00 00:00:00', nu int DEFAULT NULL, ex int DEFAULT (1 + 2), iq int DEFAULT '12', bn varchar(5) DEFAULT NULL);
CREATE TABLE shapes (id int PRIMARY KEY, g geometry, p point, l linestring, po polygon, mp multipoint, ml multilinestring, mpo multipolygon, gc geometrycollection);
