// Command record writes what a real server says of the tables of testdata: how each was created, the row images of the
// binlog and the rows of a snapshot's SELECT.
//
//	go run ./connectors/mysql/value/testdata/record mysql|mariadb ADDRESS >FILE.json.gz
//
// ADDRESS is host:port of a server with the user and password weir whose binlog holds all of the tables' changes.
package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
	"github.com/weirlog/weir/connectors/mysql/value"
)

// Event is a ROWS event.
type Event struct {
	Kind                  binlog.RowsKind
	Partial               bool `json:",omitempty"`
	Present, PresentAfter []byte
	Data                  []byte
}

// Table is what is recorded of one.
type Table struct {
	Create string
	Types  []byte
	Metas  []uint16
	Events []Event
	Names  []string   // of Select's columns
	Select [][][]byte // a field is nil for NULL
}

func main() {
	check(run(os.Args[1], os.Args[2]))
}

func run(server, address string) error {
	connect := func(context.Context) (*client.Conn, error) {
		return client.Connect(address, "weir", "weir", "")
	}
	conn, err := connect(context.Background())
	check(err)
	defer conn.Close()
	for _, sql := range []string{"set names utf8mb4", "set time_zone = '+00:00'"} {
		_, err = conn.Execute(sql)
		check(err)
	}
	dialect, structure := binlog.MySQL, schema.MySQL
	if server == "mariadb" {
		dialect, structure = binlog.MariaDB, schema.MariaDB
	}
	catalog := schema.NewCatalog(structure, false, "utf8mb4")
	found := map[string]*Table{}
	r, err := conn.Execute("select table_schema, table_name from information_schema.tables where table_schema in ('types', 'beyond') order by 1, 2")
	check(err)
	for i := range r.Values {
		database, _ := r.GetString(i, 0)
		name, _ := r.GetString(i, 1)
		found[database+"."+name] = read(conn, catalog, schema.TableID{Database: database, Name: name})
	}
	check(readBinlog(connect, conn, dialect, found))
	out := gzip.NewWriter(os.Stdout)
	check(json.NewEncoder(out).Encode(found))
	return out.Close()
}

// read asks for the structure and the rows of one table.
func read(conn *client.Conn, catalog *schema.Catalog, id schema.TableID) *Table {
	quoted := "`" + id.Database + "`.`" + id.Name + "`"
	r, err := conn.Execute("show create table " + quoted)
	check(err)
	create, _ := r.GetString(0, 1)
	t := &Table{Create: strings.Clone(create)}
	table, err := catalog.FromCreate(id, t.Create)
	check(err)
	var list []string
	for i := range table.Columns {
		c, err := value.Compile(&table.Columns[i], value.Wire{}, value.Modes{})
		check(err)
		t.Names = append(t.Names, table.Columns[i].Name)
		list = append(list, c.Select("`"+table.Columns[i].Name+"`"))
	}
	r, err = conn.Execute("select " + strings.Join(list, ",") + " from " + quoted + " order by 1")
	check(err)
	for _, raw := range r.RowDatas {
		t.Select = append(t.Select, fields(raw))
	}
	return t
}

// fields splits a packet of a text result set.
func fields(raw []byte) (out [][]byte) {
	for len(raw) > 0 {
		if raw[0] == 0xFB {
			out, raw = append(out, nil), raw[1:]
			continue
		}
		n, skip := uint64(raw[0]), 1
		switch raw[0] {
		case 0xFC:
			n, skip = uint64(raw[1])|uint64(raw[2])<<8, 3
		case 0xFD:
			n, skip = uint64(raw[1])|uint64(raw[2])<<8|uint64(raw[3])<<16, 4
		}
		raw = raw[skip:]
		out, raw = append(out, append([]byte{}, raw[:n]...)), raw[n:]
	}
	return out
}

func readBinlog(connect func(context.Context) (*client.Conn, error), conn *client.Conn, dialect binlog.Dialect, found map[string]*Table) error {
	r, err := conn.Execute("show binary logs")
	check(err)
	file, _ := r.GetString(0, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	s, err := binlog.Open(ctx, binlog.Config{Dialect: dialect, Connect: connect, ServerID: 4711, Heartbeat: time.Second,
		Wanted: func(database, name string) bool { return database == "types" || database == "beyond" }}, binlog.Offset{File: file, Pos: 4})
	check(err)
	defer s.Close()
	for {
		e, err := s.Next(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		check(err)
		rows, ok := e.(*binlog.Rows)
		if !ok {
			continue
		}
		t := found[rows.Table.Database+"."+rows.Table.Table]
		if t == nil {
			return fmt.Errorf("no table %s", rows.Table.Table)
		}
		t.Types, t.Metas = nil, nil
		for _, c := range rows.Table.Columns {
			t.Types, t.Metas = append(t.Types, c.Type), append(t.Metas, c.Meta)
		}
		t.Events = append(t.Events, Event{Kind: rows.Kind, Partial: rows.Partial, Present: slices.Clone(rows.Present), PresentAfter: slices.Clone(rows.PresentAfter), Data: slices.Clone(rows.Data)})
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
