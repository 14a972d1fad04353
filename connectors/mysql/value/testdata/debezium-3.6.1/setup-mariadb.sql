CREATE TABLE own (id int PRIMARY KEY, gv int AS (id * 2) VIRTUAL, gs varchar(10) AS (concat('n', id)) PERSISTENT, inv int INVISIBLE DEFAULT 4, jl longtext CHECK (json_valid(jl)),
  ej varchar(20) charset eucjpms, s7 varchar(20) charset swe7, d8 varchar(20) charset dec8, u16 varchar(20) charset utf16le, mr varchar(20) charset macroman);
