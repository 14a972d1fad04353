package binlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
)

// link is a TCP relay before a server that a test can damage. It ends with the test.
type link struct {
	listener net.Listener
	target   string
	deaf     atomic.Bool  // bytes from the server are swallowed, and nobody is told
	budget   atomic.Int64 // after so many bytes from the server each connection is cut; 0: never
	flip     atomic.Int64 // the bit of which byte from the server is changed; 0: none
	pause    time.Duration
	piece    int // bytes of the server come in pieces of so many, 0: as they are

	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

// newLink makes a relay; pace changes it before it begins, nil for none.
func newLink(t *testing.T, target string, pace func(*link)) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &link{listener: l, target: target}
	if pace != nil {
		pace(p)
	}
	p.wg.Add(1)
	go p.serve()
	t.Cleanup(p.close)
	return p
}

func (p *link) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *link) serve() {
	defer p.wg.Done()
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, near, far)
		p.mu.Unlock()
		p.wg.Add(2)
		go func() {
			defer p.wg.Done()
			_, _ = io.Copy(far, near)
			_ = far.Close()
		}()
		go func() {
			defer p.wg.Done()
			p.back(near, far)
			_, _ = near.Close(), far.Close()
		}()
	}
}

// back carries the server's bytes.
func (p *link) back(near, far net.Conn) {
	buf := make([]byte, 32<<10)
	if p.piece > 0 {
		buf = buf[:p.piece]
	}
	var total int64
	for {
		n, err := far.Read(buf)
		if err != nil {
			return
		}
		if at := p.flip.Load(); at > 0 && total <= at && at < total+int64(n) {
			buf[at-total] ^= 1
		}
		total += int64(n)
		if limit := p.budget.Load(); limit > 0 && total > limit {
			_, _ = near.Write(buf[:int64(n)-(total-limit)])
			return
		}
		if p.deaf.Load() {
			continue
		}
		time.Sleep(p.pause)
		if _, err := near.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *link) connect(ctx context.Context) (*client.Conn, error) {
	return dialAt(ctx, p.listener.Addr().String())
}

// TestDeadLink: packets vanish and no side is told. Three heartbeats later the stream says so, and goes on elsewhere.
func TestDeadLink(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		db := srv.database(t)
		srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
		p := newLink(t, srv.address(), nil)
		cfg := srv.config(db)
		cfg.Connect, cfg.Heartbeat = p.connect, 100*time.Millisecond
		s := open(t, cfg, srv.here(t))
		for range 3 { // heartbeats of an idle server keep it alive
			e, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := e.(*Heartbeat); !ok {
				t.Fatalf("%T came, want heartbeats", e)
			}
		}
		p.deaf.Store(true)
		srv.exec(t, "INSERT INTO "+db+".a VALUES (1)")
		started := time.Now()
		var err error
		for err == nil {
			short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond) // as polls do: silence adds up over calls
			_, err = s.Next(short)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				err = nil
			}
		}
		class(t, err, Lost)
		if took := time.Since(started); took < 250*time.Millisecond || took > 20*time.Second {
			t.Errorf("a dead link was noticed after %s, want about 300 ms", took)
		}
		if _, err := s.Next(t.Context()); Classify(err) != Lost {
			t.Errorf("after its end the stream says %v", err)
		}
		cfg.Connect = srv.connect
		expect(t, story(t, open(t, cfg, s.Offset()), 1), "begin", "insert a", "commit")
	})
}

// TestLinkCutInsideEvents: the link breaks again and again in the middle of events, and each row comes exactly once.
func TestLinkCutInsideEvents(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		db := srv.database(t)
		srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
		from := srv.here(t)
		statements := []string{"USE " + db, "BEGIN"}
		const rows = 40_000
		for i := 0; i < rows; i += 2000 {
			statements = append(statements, numbers(i, 2000))
		}
		srv.exec(t, append(statements, "COMMIT")...)
		p := newLink(t, srv.address(), nil)
		p.budget.Store(17_011)
		cfg := srv.config(db)
		cfg.Connect = p.connect
		seen, cuts := make(map[string]int), 0
		for done := false; !done; {
			cfg.ServerID++
			s, err := Open(t.Context(), cfg, from)
			if err != nil {
				t.Fatal(err)
			}
			for !done {
				e, err := s.Next(t.Context())
				if err != nil {
					class(t, err, Lost)
					from = s.Offset()
					break
				}
				switch e := e.(type) {
				case *Rows:
					for _, row := range wholeNumbers(e)[e.Skip:] {
						seen[row]++
					}
				case *Commit:
					done = true
				}
			}
			_ = s.Close()
			if cuts++; cuts > 1000 {
				t.Fatal("no progress")
			}
			p.budget.Add(17_011 / 2) // the server begins each time at the transaction's beginning
		}
		if cuts < 10 || len(seen) != rows {
			t.Errorf("%d different rows of %d after %d cuts", len(seen), rows, cuts)
		}
		for row, n := range seen {
			if n != 1 {
				t.Fatalf("%s came %d times", row, n)
			}
		}
	})
}

// numbers inserts n whole numbers from first on.
func numbers(first, n int) string {
	var sql strings.Builder
	fmt.Fprintf(&sql, "INSERT INTO a VALUES (%d)", first)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&sql, ",(%d)", first+i)
	}
	return sql.String()
}

// TestContextsMayEndAnywhere: Next is called with contexts that end while an event is half there.
func TestContextsMayEndAnywhere(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		db := srv.database(t)
		srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
		from := srv.here(t)
		srv.exec(t, "USE "+db, numbers(0, 500), numbers(500, 3))
		p := newLink(t, srv.address(), func(p *link) { p.piece, p.pause = 7, 20*time.Microsecond })
		cfg := srv.config(db)
		cfg.Connect = p.connect
		s := open(t, cfg, from)
		rows, ended := 0, 0
		for commits := 0; commits < 2; {
			var ctx context.Context
			var cancel context.CancelFunc
			if ended%2 == 0 {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Microsecond)
			} else {
				ctx, cancel = context.WithCancel(t.Context())
				timer := time.AfterFunc(50*time.Microsecond, cancel)
				defer timer.Stop()
			}
			e, err := s.Next(ctx)
			cancel()
			switch e := e.(type) {
			case *Rows:
				rows += len(wholeNumbers(e))
			case *Commit:
				commits++
			}
			if err != nil {
				if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				ended++
			}
		}
		if rows != 503 || ended == 0 {
			t.Errorf("%d rows with %d contexts that ended, want 503 rows", rows, ended)
		}
	})
}

// TestEncryptedLink: the same through TLS, with contexts that end.
func TestEncryptedLink(t *testing.T) {
	srv := sharedServer(t, MySQL)
	db := srv.database(t)
	srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
	from := srv.here(t)
	cfg := srv.config(db)
	cfg.Connect = func(ctx context.Context) (*client.Conn, error) {
		dialer := &net.Dialer{}
		return client.ConnectWithDialer(ctx, "tcp", srv.address(), "weir", "weir", "", dialer.DialContext, func(c *client.Conn) error {
			c.UseSSL(true)
			return nil
		})
	}
	s := open(t, cfg, from)
	if encrypted := s.wire.conn; !strings.Contains(fmt.Sprintf("%T", encrypted), "tls") {
		t.Fatalf("the connection is a %T", encrypted)
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if e, err := s.Next(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(e, err)
		}
		cancel()
	}
	srv.exec(t, "USE "+db, numbers(0, 100_000))
	next(t, s)
	rows := 0
	for rows < 100_000 {
		rows += len(wholeNumbers(next(t, s).(*Rows)))
	}
	if _, ok := next(t, s).(*Commit); !ok {
		t.Error("no commit follows")
	}
}

// TestCloseEndsNext: who waits in Next is set free.
func TestCloseEndsNext(t *testing.T) {
	srv := sharedServer(t, MySQL)
	cfg := srv.config("none")
	cfg.Heartbeat = time.Hour
	s := open(t, cfg, srv.here(t))
	ended := make(chan error)
	go func() {
		var err error
		for err == nil { // until nothing is left and it waits
			_, err = s.Next(t.Context())
		}
		ended <- err
	}()
	_ = s.Close()
	select {
	case err := <-ended:
		class(t, err, Lost)
	case <-time.After(10 * time.Second):
		t.Fatal("Next outlives Close")
	}
}

// TestDamageOnTheWay: a bit that changes anywhere in the events is an error, never other data.
func TestDamageOnTheWay(t *testing.T) {
	srv := sharedServer(t, MariaDB)
	db := srv.database(t)
	srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
	from := srv.here(t)
	from.GTIDs = ""
	srv.exec(t, "USE "+db, numbers(0, 100))
	p := newLink(t, srv.address(), nil)
	cfg := srv.config(db)
	cfg.Connect = p.connect
	clean := open(t, cfg, from)
	want := wholeNumbersOf(t, clean)
	bad := 0
	for at := int64(1000); at < 3000; at += 97 {
		p.flip.Store(at)
		cfg.ServerID++
		s, err := Open(t.Context(), cfg, from)
		if err != nil {
			continue // in the login
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		var got []string
		for err == nil {
			var e Event
			e, err = s.Next(ctx)
			if r, ok := e.(*Rows); ok {
				got = append(got, wholeNumbers(r)...)
			}
		}
		cancel()
		_ = s.Close()
		if len(got) > 0 && fmt.Sprint(got) != want {
			t.Errorf("byte %d: other rows came", at)
		}
		if Classify(err) == Corrupt {
			bad++
		}
	}
	if bad < 3 {
		t.Errorf("damage was noticed only %d times", bad)
	}
}

func wholeNumbersOf(t *testing.T, s *Stream) string {
	for {
		if r, ok := next(t, s).(*Rows); ok {
			return fmt.Sprint(wholeNumbers(r))
		}
	}
}
