package mysql

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

func (d *db) check(c connect.Config) []connect.Finding {
	d.t.Helper()
	found, err := check(context.Background(), d.server.dialect, connect.Instance{Name: "my", Config: c})
	if err != nil {
		d.t.Fatal(err)
	}
	return found
}

// TestCheckNamesWhatIsMissing: each right that is missing has the statement that gives it, and once all are run nothing is
// left.
func TestCheckNamesWhatIsMissing(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		d.exec("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE `odd ``name` (id int)")
		user := fmt.Sprintf("u%d", databases.Add(1))
		d.exec("CREATE USER "+user+"@'%' IDENTIFIED BY 'weir'", "GRANT INSERT ON "+d.name+".* TO "+user+"@'%'")
		t.Cleanup(func() { d.exec("DROP USER " + user + "@'%'") })
		c := d.config("database.user", user)
		var mends []string
		for _, f := range d.check(c) {
			if f.Mend == "" {
				t.Errorf("nothing mends %q", f.Fault)
			}
			mends = append(mends, f.Mend)
		}
		want := []string{"REPLICATION SLAVE", map[binlog.Dialect]string{binlog.MySQL: "REPLICATION CLIENT", binlog.MariaDB: "BINLOG MONITOR"}[d.server.dialect], "RELOAD", ".`t` TO", ".`odd ``name` TO"}
		if len(mends) != len(want) {
			t.Fatalf("findings %q", mends)
		}
		for i, w := range want {
			if !strings.Contains(strings.Join(mends, "\n"), w) {
				t.Errorf("no finding names %s (%d): %q", w, i, mends)
			}
		}
		d.exec(mends...)
		if left := d.check(c); len(left) > 0 {
			t.Errorf("still %v", left)
		}
	})
}

// TestCheckSeesRoles: rights that come by a role count.
func TestCheckSeesRoles(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		n := databases.Add(1)
		user, role := fmt.Sprintf("u%d", n), fmt.Sprintf("r%d", n)
		d.exec("CREATE ROLE "+role, "GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO "+role, "CREATE USER "+user+"@'%' IDENTIFIED BY 'weir'", "GRANT "+role+" TO "+user+"@'%'")
		t.Cleanup(func() { d.exec("DROP USER "+user+"@'%'", "DROP ROLE "+role) })
		if d.server.dialect == binlog.MariaDB {
			d.exec("SET DEFAULT ROLE " + role + " FOR " + user + "@'%'")
		} else {
			d.exec("SET DEFAULT ROLE " + role + " TO " + user + "@'%'")
		}
		if found := d.check(d.config("database.user", user)); len(found) > 0 {
			t.Errorf("findings %v", found)
		}
	})
}

// TestCheckNamesSettings: what a server's settings spoil is named with the setting. No server is asked.
func TestCheckNamesSettings(t *testing.T) {
	good := map[string]string{"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL", "server_id": "1"}
	for _, c := range []struct {
		name, value, says string
		fatal             bool
	}{
		{"log_bin", "OFF", "log_bin", true},
		{"binlog_format", "STATEMENT", "SET PERSIST binlog_format = 'ROW'", true},
		{"binlog_format", "MIXED", "SET PERSIST binlog_format = 'ROW'", true},
		{"binlog_row_image", "MINIMAL", "SET PERSIST binlog_row_image = 'FULL'", false},
		{"binlog_row_metadata", "MINIMAL", "SET PERSIST binlog_row_metadata = 'FULL'", false},
		{"server_id", "77", "database.server.id", true},
		{"log_bin", "1", "", false},
	} {
		s, err := parseSettings(binlog.MySQL, connect.Config{"topic.prefix": "srv", "database.hostname": "h", "database.user": "u", "database.server.id": "77"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		vars := maps.Clone(good)
		vars[c.name] = c.value
		i := &inspection{}
		s.inspectBinlog(vars, i)
		if c.says == "" {
			if len(i.findings) != 0 {
				t.Errorf("%s=%s: %v", c.name, c.value, i.findings)
			}
			continue
		}
		if len(i.findings) != 1 || !strings.Contains(i.findings[0].Mend, c.says) || i.findings[0].Fatal != c.fatal {
			t.Errorf("%s=%s: %+v", c.name, c.value, i.findings)
		}
	}
}

// TestTheOtherServerIsRefused: each connector names the other when it meets its server.
func TestTheOtherServerIsRefused(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		other := binlog.MariaDB
		if d.server.dialect == binlog.MariaDB {
			other = binlog.MySQL
		}
		found, err := check(context.Background(), other, connect.Instance{Name: "my", Config: d.config()})
		if err != nil || len(found) != 1 || !found[0].Fatal || found[0].Mend != "connector.class="+d.server.dialect.String() {
			t.Errorf("%v %v", found, err)
		}
	})
}

// TestBadConfigurations: each fault is told with its key, before any server is asked.
func TestBadConfigurations(t *testing.T) {
	base := connect.Config{"topic.prefix": "srv", "database.hostname": "h", "database.user": "u"}
	for _, c := range [][3]string{
		{"topic.prefix", "a b", "topic.prefix"},
		{"table.include.list", "a.(b", "table.include.list"},
		{"snapshot.mode", "sometimes", "snapshot.mode"},
		{"schema.history.internal", "com.example.History", "schema.history.internal"},
		{"schema.history.internal", "io.debezium.storage.file.history.FileSchemaHistory", "schema.history.internal.file.filename"},
		{"column.mask.with.3.chars", "a.b.c", "column.mask.with.3.chars"},
		{"database.ssl.truststore", "/nowhere", "database.ssl.mode"},
		{"provide.transaction.metadata", "true", "provide.transaction.metadata"},
	} {
		config := maps.Clone(base)
		config[c[0]] = c[1]
		_, results := connect.ParseConfig(fields(binlog.MySQL), config)
		results = append(results, validate(binlog.MySQL, config)...)
		if !slices.ContainsFunc(results, func(r connect.FieldResult) bool { return r.Name == c[2] && len(r.Errors) > 0 }) {
			t.Errorf("%s=%s: no fault of %s", c[0], c[1], c[2])
		}
	}
	if left := slices.DeleteFunc(validate(binlog.MySQL, base), func(r connect.FieldResult) bool { return len(r.Errors) == 0 }); len(left) > 0 {
		t.Errorf("a good configuration has faults: %v", left)
	}
}
