package schema

import "testing"

func TestScratch(t *testing.T) {
	c := NewCatalog(MySQL, false, "utf8mb4")
	for _, s := range []string{
		"create table a (id int unsigned not null auto_increment primary key, name varchar(20) default 'it''s', e enum('a','b,c') not null, s set('x','y'), d decimal(10,2) unsigned zerofill, unique key u (name), ts timestamp default current_timestamp on update current_timestamp) charset latin1",
		"alter table a add column (x int, y double precision not null default -1.5), drop column d, modify name text first, rename to b",
		"rename table b to c, c to d",
		"drop table if exists d, e",
	} {
		ch, err := c.Apply(Statement{Database: "q", Text: s})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range ch {
			t.Logf("%+v", x)
			if x.Table != nil {
				for _, col := range x.Table.Columns {
					t.Logf("   %+v", col)
				}
				t.Log(x.Table.PrimaryKey, x.Table.UniqueKeys)
			}
		}
	}
}
