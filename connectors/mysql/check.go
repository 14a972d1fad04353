package mysql

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// inspection is what a look at the server found.
type inspection struct {
	findings debezium.Findings
	server   serverFacts
}

// serverFacts are what of the server a task must know.
type serverFacts struct {
	version   string
	foldNames bool   // names of tables compare without regard to case
	charset   string // default of new databases
	gtid      bool   // each transaction has one
	rights    rights
}

// inspect looks at the server with the connector's rights.
func (s *settings) inspect(ctx context.Context, conn *client.Conn) (*inspection, error) {
	i := &inspection{}
	vars, err := variables(ctx, conn, "version", "version_comment", "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "gtid_mode", "server_id",
		"lower_case_table_names", "character_set_server", "log_slave_updates", "log_replica_updates")
	if err != nil {
		return nil, fmt.Errorf("look at the server's settings: %w", err)
	}
	mariadb := strings.Contains(strings.ToLower(vars["version"]), "mariadb") || strings.Contains(strings.ToLower(vars["version_comment"]), "mariadb")
	i.server = serverFacts{version: vars["version"], foldNames: vars["lower_case_table_names"] != "0", charset: vars["character_set_server"],
		gtid: mariadb || strings.EqualFold(vars["gtid_mode"], "ON")}
	if mariadb != (s.dialect == binlog.MariaDB) {
		other := map[bool]string{true: "mariadb", false: "mysql"}[mariadb]
		i.findings.Add(true, "database.hostname", fmt.Sprintf("the server is %s %s, which this connector does not read", map[bool]string{true: "MariaDB", false: "MySQL"}[mariadb], vars["version"]), "connector.class="+other)
		return i, nil
	}
	s.inspectBinlog(vars, i)
	if err := s.inspectReplica(ctx, conn, vars, i); err != nil {
		return nil, err
	}
	if i.server.rights, err = readRights(ctx, conn, mariadb); err != nil {
		return nil, fmt.Errorf("look at the user's rights: %w", err)
	}
	s.inspectRights(i)
	return i, s.inspectTables(ctx, conn, i)
}

// variables reads global settings; those that the server does not have are "".
func variables(ctx context.Context, conn *client.Conn, names ...string) (map[string]string, error) {
	rows, err := rowsOf(ctx, conn, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('"+strings.Join(names, "','")+"')")
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(rows))
	for _, r := range rows {
		out[strings.ToLower(r[0])] = r[1]
	}
	return out, nil
}

func (s *settings) inspectBinlog(vars map[string]string, i *inspection) {
	set := func(name, value string) string {
		if s.dialect == binlog.MariaDB {
			return fmt.Sprintf("SET GLOBAL %s = %s, and the same in the server's configuration", name, value)
		}
		return fmt.Sprintf("SET PERSIST %s = %s", name, value)
	}
	if !on(vars["log_bin"]) {
		i.findings.Add(true, "database.hostname", "the server writes no binlog (log_bin is OFF)", "log_bin in the server's configuration, and a restart of the server")
		return
	}
	if f := vars["binlog_format"]; f != "" && !strings.EqualFold(f, "ROW") {
		i.findings.Add(true, "database.hostname", "the server's binlog_format is "+f+", not ROW, so changes are logged as statements", set("binlog_format", "'ROW'"))
	}
	if v := vars["binlog_row_image"]; v != "" && !strings.EqualFold(v, "FULL") {
		i.findings.Add(false, "database.hostname", "the server's binlog_row_image is "+v+": values that a change leaves as they are come as "+string(s.Placeholder)+", null or the default", set("binlog_row_image", "'FULL'"))
	}
	if v, known := vars["binlog_row_metadata"]; known && !strings.EqualFold(v, "FULL") {
		i.findings.Add(false, "database.hostname", "the server's binlog_row_metadata is "+v+": rows are read by the schema history alone, which must understand every statement", set("binlog_row_metadata", "'FULL'"))
	}
	if id, err := strconv.ParseUint(vars["server_id"], 10, 32); err == nil && uint32(id) == s.serverID {
		i.findings.Add(true, "database.server.id", fmt.Sprintf("%d is the server's own server_id", id), "another database.server.id, or none")
	}
}

func on(v string) bool { return v == "1" || strings.EqualFold(v, "ON") }

// inspectReplica looks whether a replica logs what it applies.
func (s *settings) inspectReplica(ctx context.Context, conn *client.Conn, vars map[string]string, i *inspection) error {
	updates := vars["log_replica_updates"]
	if updates == "" {
		updates = vars["log_slave_updates"]
	}
	if updates == "" || on(updates) {
		return nil
	}
	statement := "SHOW REPLICA STATUS"
	rows, err := rowsOf(ctx, conn, statement)
	if binlog.Classify(err) == binlog.Denied || binlog.Classify(err) == binlog.Other {
		err = nil // without the right to look, or the statement, nothing can be said
	}
	if len(rows) > 0 {
		i.findings.Add(true, "database.hostname", "the server is a replica that does not log what it applies (log_replica_updates is OFF), so there is nothing to read",
			"log_replica_updates=ON (older servers: log_slave_updates) in the server's configuration, and a restart of the server")
	}
	return err
}

// rights are the user's on the whole server, and on databases.
type rights struct {
	global    map[string]bool            // upper case
	databases map[string]map[string]bool // by a database's pattern
}

// has reports whether one of the rights is there on the whole server.
func (r *rights) has(names ...string) bool {
	return r.global["ALL PRIVILEGES"] || r.global["ALL"] || r.global["SUPER"] && !slices.Contains(names, "SELECT") ||
		slices.ContainsFunc(names, func(n string) bool { return r.global[n] })
}

// readRights reads SHOW GRANTS, with the rights of the roles that the session has.
func readRights(ctx context.Context, conn *client.Conn, mariadb bool) (rights, error) {
	r := rights{global: make(map[string]bool), databases: make(map[string]map[string]bool)}
	statements := []string{"SHOW GRANTS"}
	if role, err := oneOf(ctx, conn, "SELECT CURRENT_ROLE()"); err == nil && len(role) == 1 && role[0] != "" && role[0] != "NONE" {
		if mariadb {
			statements = append(statements, "SHOW GRANTS FOR "+quoteName(role[0]))
		} else {
			statements = []string{"SHOW GRANTS FOR CURRENT_USER() USING " + role[0]}
		}
	}
	for _, statement := range statements {
		rows, err := rowsOf(ctx, conn, statement)
		if err != nil {
			return r, err
		}
		for _, row := range rows {
			r.add(row[0])
		}
	}
	return r, nil
}

// add reads one line of SHOW GRANTS: GRANT a, b ON x.y TO …
func (r *rights) add(line string) {
	list, rest, ok := strings.Cut(strings.TrimPrefix(line, "GRANT "), " ON ")
	if !ok || !strings.HasPrefix(line, "GRANT ") {
		return
	}
	object, _, _ := strings.Cut(rest, " TO ")
	into := r.global
	if object != "*.*" {
		database, name, _ := strings.Cut(object, ".")
		if name != "*" {
			return
		}
		database = strings.ReplaceAll(strings.Trim(database, "`"), "``", "`")
		if r.databases[database] == nil {
			r.databases[database] = make(map[string]bool)
		}
		into = r.databases[database]
	}
	for _, right := range strings.Split(list, ",") {
		into[strings.ToUpper(strings.TrimSpace(right))] = true
	}
}

func (s *settings) inspectRights(i *inspection) {
	need := func(fatal bool, why, grant string, anyOf ...string) {
		if !i.server.rights.has(anyOf...) {
			i.findings.Add(fatal, "database.user", fmt.Sprintf("user %q lacks %s, to %s", s.user, anyOf[0], why), "GRANT "+grant+" ON *.* TO "+s.account())
		}
	}
	need(true, "read the binlog", "REPLICATION SLAVE", "REPLICATION SLAVE", "REPLICATION REPLICA", "REPLICATION SLAVE ADMIN")
	if s.dialect == binlog.MariaDB {
		need(true, "ask where the binlog ends", "BINLOG MONITOR", "BINLOG MONITOR", "REPLICATION CLIENT")
	} else {
		need(true, "ask where the binlog ends", "REPLICATION CLIENT", "REPLICATION CLIENT")
	}
	if s.locking != "none" {
		need(false, "hold writers off while a snapshot reads position and structures; tables are locked one by one instead", "RELOAD", "RELOAD", "FLUSH_TABLES")
	}
}

// mostTablesTried bounds how many tables are tried for the right to read them.
const mostTablesTried = 200

func (s *settings) inspectTables(ctx context.Context, conn *client.Conn, i *inspection) error {
	all, err := tableNames(ctx, conn)
	if err != nil {
		return fmt.Errorf("look at the tables: %w", err)
	}
	tried := 0
	for _, id := range all {
		if !s.takesTable(id) || i.server.rights.has("SELECT") || i.server.rights.databases[id.Database]["SELECT"] || tried == mostTablesTried {
			continue
		}
		tried++
		if _, err := execute(ctx, conn, "SELECT 1 FROM "+quoted(id)+" LIMIT 0"); err != nil {
			if binlog.Classify(err) != binlog.Denied {
				continue // a broken table is the snapshot's to tell of
			}
			i.findings.Add(true, "database.user", fmt.Sprintf("user %q may not read %s", s.user, id), "GRANT SELECT ON "+quoted(id)+" TO "+s.account())
		}
	}
	for _, name := range s.Tables.Include.Literals() {
		if !slices.ContainsFunc(all, func(id schema.TableID) bool { return strings.EqualFold(id.String(), name) }) {
			i.findings.Add(false, "table.include.list", fmt.Sprintf("the server has no table %s, or user %q may not see it%s", name, s.user, nearestTable(name, all)), "")
		}
	}
	return nil
}

// tableNames gives the base tables that the user can see, in the order of their names' bytes.
func tableNames(ctx context.Context, conn *client.Conn) ([]schema.TableID, error) {
	rows, err := rowsOf(ctx, conn, "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'")
	if err != nil {
		return nil, err
	}
	out := make([]schema.TableID, len(rows))
	for i, r := range rows {
		out[i] = schema.TableID{Database: r[0], Name: r[1]}
	}
	slices.SortFunc(out, func(a, b schema.TableID) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

func quoted(id schema.TableID) string { return quoteName(id.Database) + "." + quoteName(id.Name) }

// nearestTable names the tables that might have been meant.
func nearestTable(name string, all []schema.TableID) string {
	_, bare, qualified := strings.Cut(name, ".")
	if !qualified {
		bare = name
	}
	var hits []string
	for _, id := range all {
		if strings.EqualFold(id.Name, bare) && !builtinDatabase(id.Database) {
			hits = append(hits, id.String())
		}
	}
	if hits == nil {
		return ""
	}
	return "; there is " + strings.Join(hits, ", ")
}
