package postgres

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirlog/weir/connect"
)

// SQLSTATEs that are told apart.
const (
	stateNoDatabase    = "3D000"
	stateNoRights      = "42501"
	stateInUse         = "55006"
	stateDuplicate     = "42710"
	stateUndefined     = "42704"
	stateTooMany       = "53300"
	stateStarting      = "57P03"
	stateNoSlots       = "53400"
	classAuthorization = "28"
)

// sessionParameters make the text form of values the same in every session, whatever the server's settings are.
func sessionParameters() map[string]string {
	return map[string]string{
		"client_encoding": "UTF8", "DateStyle": "ISO, MDY", "TimeZone": "UTC", "IntervalStyle": "iso_8601",
		"bytea_output": "hex", "extra_float_digits": "3", "lc_monetary": "C",
		"row_security":      "off", // an error instead of a table without the rows that a policy hides
		"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
	}
}

// open connects; a replication connection speaks the replication commands too.
func (s *settings) open(ctx context.Context, application string, replication bool) (*pgconn.PgConn, error) {
	pairs := map[string]string{
		"host": s.host, "port": strconv.Itoa(s.port), "user": s.user, "password": s.password, "dbname": s.database,
		"connect_timeout": strconv.Itoa(max(1, int(s.connectTimeout/time.Second))),
	}
	for k, v := range s.tls {
		pairs[k] = v
	}
	var dsn strings.Builder
	for k, v := range pairs {
		if v != "" {
			fmt.Fprintf(&dsn, "%s='%s' ", k, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v))
		}
	}
	config, err := pgconn.ParseConfig(dsn.String())
	if err != nil {
		return nil, connect.BadConfig("database.sslmode", fmt.Errorf("read connection settings: %w", err))
	}
	config.RuntimeParams = sessionParameters()
	config.RuntimeParams["application_name"] = application
	if replication {
		config.RuntimeParams["replication"] = "database"
	}
	config.DialFunc = (&net.Dialer{KeepAlive: keepAliveEvery}).DialContext
	ctx, cancel := context.WithTimeout(ctx, s.connectTimeout)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, s.explain(err)
	}
	if replication {
		return conn, nil
	}
	// Servers before 14 do not know the setting, so it can't be among the parameters.
	if _, err := rowsOf(ctx, conn, `SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'idle_session_timeout'`); err != nil {
		return nil, errors.Join(s.explain(err), conn.Close(ctx))
	}
	return conn, nil
}

// explain classifies an error of the server or the network: the one place that decides whether to try again.
func (s *settings) explain(err error) error {
	var classified *connect.Error
	if err == nil || errors.As(err, &classified) {
		return err
	}
	at := net.JoinHostPort(s.host, strconv.Itoa(s.port))
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if distrusted(err) {
			return connect.BadConfig("database.sslrootcert", fmt.Errorf("PostgreSQL at %s shows a certificate that is not trusted: %w", at, err))
		}
		if lostConnection(err) {
			return connect.Retry(0, fmt.Errorf("reach PostgreSQL at %s: %w", at, err))
		}
		return err
	}
	switch {
	case strings.HasPrefix(pg.Code, classAuthorization):
		return connect.BadConfig("database.password", fmt.Errorf(
			"PostgreSQL at %s refused user %q: %s; check database.user, database.password and the server's pg_hba.conf", at, s.user, pg.Message))
	case pg.Code == stateNoDatabase:
		return connect.BadConfig("database.dbname", fmt.Errorf("PostgreSQL at %s has no database %q", at, s.database))
	case pg.Code == stateNoRights:
		return connect.BadConfig("database.user", fmt.Errorf("user %q lacks a right: %s", s.user, pg.Message))
	case pg.Code == stateInUse:
		return connect.Retry(time.Second, fmt.Errorf("replication slot %q is in use: %s; another connector may use it (give each its own slot.name), or an old connection has not ended yet", s.slot, pg.Message))
	case pg.Code == stateUndefined && strings.Contains(pg.Message, "publication"):
		return fmt.Errorf("PostgreSQL at %s: %w; the publication was not there when these changes were written, so they can't be decoded: drop the slot (SELECT pg_drop_replication_slot(%s)), delete the connector's offsets and start it anew",
			at, err, strings.TrimSpace(quoteLiteral(s.slot)))
	case pg.Code == stateNoSlots:
		return connect.BadConfig("slot.name", fmt.Errorf("%s; raise max_replication_slots or drop one that is not used: SELECT pg_drop_replication_slot(slot_name)", pg.Message))
	case pg.Code == stateTooMany, pg.Code == stateStarting, strings.HasPrefix(pg.Code, "57P"), strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "53"), strings.HasPrefix(pg.Code, "40"):
		return connect.Retry(0, fmt.Errorf("PostgreSQL at %s: %w", at, err))
	}
	return fmt.Errorf("PostgreSQL at %s: %w", at, err)
}

// lostConnection tells faults of the network and of connections, which pass, from ours.
func lostConnection(err error) bool {
	var network net.Error
	var connecting *pgconn.ConnectError
	switch {
	case errors.As(err, &network), errors.As(err, &connecting), pgconn.SafeToRetry(err), pgconn.Timeout(err):
		return true
	}
	for _, target := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded, context.DeadlineExceeded, errNoFrame, errSilent} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// distrusted reports whether the server's certificate was refused.
func distrusted(err error) bool {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid)
}

// rowsOf runs one statement and gives its rows as text; null is "".
func rowsOf(ctx context.Context, conn *pgconn.PgConn, sql string, args ...string) ([][]string, error) {
	params := make([][]byte, len(args))
	for i, a := range args {
		params[i] = []byte(a)
	}
	result := conn.ExecParams(ctx, sql, params, nil, nil, nil).Read()
	if result.Err != nil {
		return nil, result.Err
	}
	rows := make([][]string, len(result.Rows))
	for i, r := range result.Rows {
		rows[i] = make([]string, len(r))
		for k, v := range r {
			rows[i][k] = string(v)
		}
	}
	return rows, nil
}

// oneOf is rowsOf for statements that answer one row, or none: then its cells are nil.
func oneOf(ctx context.Context, conn *pgconn.PgConn, sql string, args ...string) ([]string, error) {
	rows, err := rowsOf(ctx, conn, sql, args...)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// execute runs statements without parameters.
func execute(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	_, err := conn.Exec(ctx, sql).ReadAll()
	return err
}

// unhurried gives a context that the end of ctx does not end but a limit does: for short exchanges that must not be torn.
func unhurried(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), controlTimeout)
}

const (
	controlTimeout = 30 * time.Second // of one exchange with the catalog
	keepAliveEvery = 15 * time.Second // of TCP
)
