-- Statements that both servers take and that end Debezium's task, or that it reads wrong.
create table swaps (x int not null, y varchar(5) not null, z int, primary key (x), unique xy (y, x));
alter table swaps rename column x to y, rename column y to x;
alter table swaps change x y varchar(5) not null first, change y x int not null;
alter table swaps change x a int not null, change y x varchar(6) not null after z, add column y int, drop primary key, add primary key (x), add unique yy (y, a);
alter table swaps drop column z, rename column x to z, add column x int not null, alter column y set default 5, modify a bigint not null after x;
