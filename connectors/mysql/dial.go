package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

// sessionSQL makes sessions alike: times are UTC, text is UTF-8, names are quoted by backquotes, and nobody ends a session
// that waits.
const sessionSQL = "SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO', wait_timeout = 2147483, net_write_timeout = 3600, net_read_timeout = 3600"

// dial opens a session. The connection is closed when it isn't needed any more by whoever called.
func (s *settings) dial(ctx context.Context) (*client.Conn, error) {
	conn, err := s.connect(ctx, s.tls != nil)
	if err != nil && s.tlsTry && errors.Is(err, errNoTLS) {
		conn, err = s.connect(ctx, false)
	}
	if err != nil {
		return nil, s.explain(fmt.Errorf("connect to %s: %w", s.address(), err))
	}
	for _, statement := range append([]string{sessionSQL}, s.initial...) {
		if _, err := execute(ctx, conn, statement); err != nil {
			return nil, errors.Join(s.explain(fmt.Errorf("prepare the session: %w", err)), conn.Close())
		}
	}
	return conn, nil
}

func (s *settings) address() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

var errNoTLS = errors.New("the server does not offer TLS")

func (s *settings) connect(ctx context.Context, encrypted bool) (*client.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.connectTimeout)
	defer cancel()
	dialer := &net.Dialer{KeepAlive: 15 * time.Second}
	var raw net.Conn
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			raw = c
			if limit, ok := ctx.Deadline(); ok {
				err = c.SetDeadline(limit)
			}
		}
		return c, err
	}
	conn, err := client.ConnectWithDialer(ctx, "tcp", s.address(), s.user, s.password, "", dial, func(c *client.Conn) error {
		if encrypted {
			c.SetTLSConfig(s.tls)
		}
		c.SetAttributes(map[string]string{"program_name": "weir"})
		return nil
	})
	if err != nil {
		if encrypted && noTLS(err) {
			return nil, errNoTLS
		}
		return nil, err
	}
	return conn, raw.SetDeadline(time.Time{})
}

// execute runs a statement and reads its whole answer. A context that ends breaks the connection.
func execute(ctx context.Context, conn *client.Conn, sql string) (*gomysql.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit, _ := ctx.Deadline() // none: the zero time, which is no limit
	if err := conn.SetDeadline(limit); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	r, err := conn.Execute(sql)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return r, conn.SetDeadline(time.Time{})
}

// rowsOf runs a query and gives its rows as text; null is "".
func rowsOf(ctx context.Context, conn *client.Conn, sql string) ([][]string, error) {
	r, err := execute(ctx, conn, sql)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.Resultset == nil {
		return nil, nil
	}
	rows := make([][]string, r.RowNumber())
	for i := range rows {
		rows[i] = make([]string, r.ColumnNumber())
		for k := range rows[i] {
			v, err := r.GetString(i, k)
			if err != nil {
				return nil, err
			}
			rows[i][k] = strings.Clone(v) // the result's memory is used again
		}
	}
	return rows, nil
}

// oneOf is rowsOf for a query of one row; nil if there is none.
func oneOf(ctx context.Context, conn *client.Conn, sql string) ([]string, error) {
	rows, err := rowsOf(ctx, conn, sql)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// unhurried gives a short piece of work the time it needs, also when the call that it is part of ends.
func unhurried(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), controlTimeout)
}

const controlTimeout = 30 * time.Second

// quoteName quotes an identifier.
func quoteName(name string) string {
	out := []byte{'`'}
	for i := range len(name) {
		if name[i] == '`' {
			out = append(out, '`')
		}
		out = append(out, name[i])
	}
	return string(append(out, '`'))
}

// explain gives an error the kind that tells the worker what to do: faults of the network and of connections are tried
// again; what rights or settings cause is a BadConfig with the statement that mends it.
func (s *settings) explain(err error) error {
	var kind *connect.Error
	if err == nil || errors.As(err, &kind) {
		return err
	}
	switch binlog.Classify(err) {
	case binlog.Lost:
		return connect.Retry(s.pause(), err)
	case binlog.Denied:
		var server *gomysql.MyError
		if errors.As(err, &server) && (server.Code == 1045 || server.Code == 1698) {
			return connect.BadConfig("database.user", fmt.Errorf("%w; check database.user and database.password", err))
		}
		return connect.BadConfig("database.user", fmt.Errorf("%w; mend it with: GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO %s", err, s.account()))
	case binlog.DuplicateServerID:
		return connect.BadConfig("database.server.id", err)
	case binlog.Other, binlog.Purged, binlog.Diverged, binlog.Incident, binlog.StatementFormat, binlog.Corrupt:
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return connect.Retry(s.pause(), err)
	}
	return err
}

// noTLS reports whether a connection failed because the server has no TLS; the client library has only words for it.
func noTLS(err error) bool { return strings.Contains(err.Error(), "does not support TLS") }

func (s *settings) account() string { return "'" + s.user + "'@'%'" }

// pause is how long to wait before a lost connection is made again: at most what the configuration says, and not long,
// since most faults are over soon.
func (s *settings) pause() time.Duration { return min(s.ReconnectWait, time.Second) }
