package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/packet"
)

var record = flag.Bool("record", false, "write testdata from the real servers")

// tape is a connection that plays packets.
type tape struct {
	net.Conn
	r io.Reader
}

func (t *tape) Read(p []byte) (int, error)      { return t.r.Read(p) }
func (t *tape) Close() error                    { return nil }
func (t *tape) SetReadDeadline(time.Time) error { return nil }

// packets wraps events as the server sends them.
func packets(events ...[]byte) []byte {
	var out []byte
	seq := byte(0)
	for _, e := range events {
		e = append([]byte{0}, e...)
		for {
			n := min(len(e), fullPacket)
			out = append(out, byte(n), byte(n>>8), byte(n>>16), seq)
			out = append(out, e[:n]...)
			seq++
			e = e[n:]
			if n < fullPacket {
				break
			}
		}
	}
	return out
}

// play is a stream of packets from a place on.
func play(d Dialect, raw []byte, start Offset) *Stream {
	conn := &client.Conn{Conn: &packet.Conn{Conn: &tape{r: bytes.NewReader(raw)}}}
	s := &Stream{cfg: Config{Dialect: d, Annotate: true, Logger: slog.New(slog.DiscardHandler)}, conn: conn, tables: make(map[uint64]*TableMap), resume: start,
		format: format{tableIDSize: 6}}
	s.set, _ = ParseSet(d, start.GTIDs)
	s.tracked = start.GTIDs != ""
	s.rest = Position{start.File, start.Pos}
	s.wire = wire{conn: conn.Conn.Conn, buf: make([]byte, wireBufferBytes)}
	return s
}

// event makes an event without checksum.
func event(kind byte, flags uint16, end uint32, body ...[]byte) []byte {
	b := bytes.Join(body, nil)
	h := binary.LittleEndian.AppendUint32(nil, 1_700_000_000)
	h = binary.LittleEndian.AppendUint32(append(h, kind), 5)
	h = binary.LittleEndian.AppendUint32(h, uint32(headerSize+len(b)))
	h = binary.LittleEndian.AppendUint32(h, end)
	h = binary.LittleEndian.AppendUint16(h, flags)
	return append(h, b...)
}

func le(n int, v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v)[:n] }

func rotate(file string, pos uint64) []byte {
	return event(evRotate, flagArtificial, 0, le(8, pos), []byte(file))
}

func statement(sql string) []byte {
	return bytes.Join([][]byte{le(4, 9), le(4, 0), {2}, le(2, 0), le(2, 0), []byte("db\x00"), []byte(sql)}, nil)
}

// oneColumn is the table map of table db.t with one INT column.
func oneColumn(id uint64) []byte {
	return bytes.Join([][]byte{le(6, id), le(2, 1), []byte("\x02db\x00\x01t\x00"), {1, typeLong, 0, 0}}, nil)
}

func rowsOf(id uint64, rows []byte) []byte {
	return bytes.Join([][]byte{le(6, id), le(2, rowsEndStatement), le(2, 2), {1, 0xff}, rows}, nil)
}

func mariaGTID(sequence uint64, flags byte) []byte {
	return bytes.Join([][]byte{le(8, sequence), le(4, 0), {flags}, make([]byte, 6)}, nil)
}

// at end of a tape comes this.
func ended(t *testing.T, s *Stream) {
	t.Helper()
	if e, err := s.Next(t.Context()); !errors.Is(err, io.EOF) || Classify(err) != Lost {
		t.Errorf("at the end came %T, %v", e, err)
	}
}

// TestPlacesBehind4GiB: headers tell 32 bits of a place.
func TestPlacesBehind4GiB(t *testing.T) {
	const high = 1<<32 - 100
	s := play(MySQL, packets(rotate("b.1", high-34), event(evQuery, 0, high, statement("BEGIN")), event(evTableMap, 0, high+40, oneColumn(1)),
		event(evWriteRows, 0, 50, rowsOf(1, make([]byte, 5))), event(evXID, 0, 77, le(8, 1))), Offset{})
	begin := next(t, s).(*Begin)
	if begin.End != high {
		t.Errorf("%+v", begin.At)
	}
	if r := next(t, s).(*Rows); r.End != 1<<32+50 {
		t.Errorf("%+v", r.At)
	}
	next(t, s)
	if o := s.Offset(); o.Pos != 1<<32+77 {
		t.Errorf("%+v", o)
	}
	ended(t, s)

	// Asked for such a place, what comes before it is passed over.
	s = play(MySQL, packets(rotate("b.1", 4), event(evQuery, 0, 1<<31, statement("BEGIN")), event(evXID, 0, 3<<30, le(8, 1)), event(evQuery, 0, 4<<30-1, statement("BEGIN")),
		event(evXID, 0, 10, le(8, 1)), event(evQuery, 0, 99, statement("CREATE TABLE x"))), Offset{File: "b.1", Pos: 1<<32 + 10})
	s.dropUntil = 1<<32 + 10
	if q := next(t, s).(*Query); q.End != 1<<32+99 {
		t.Errorf("%+v", q.At)
	}
}

// TestPlacesThatArentTold: MariaDB 11.4 leaves them 0 inside transactions.
func TestPlacesThatArentTold(t *testing.T) {
	s := play(MariaDB, packets(rotate("b.1", 1000), event(evMariaGTID, 0, 1038, mariaGTID(7, 0)), event(evTableMap, 0, 0, oneColumn(1)),
		event(evWriteRowsV1, 0, 0, le(6, 1), le(2, 1), []byte{1, 0xff}, make([]byte, 5)), event(evXID, 0, 0, le(8, 1))), Offset{GTIDs: "0-5-6"})
	if b := next(t, s).(*Begin); b.GTID != "0-5-7" || b.Start != 1000 {
		t.Errorf("%+v", b)
	}
	size := uint64(len(event(evTableMap, 0, 0, oneColumn(1))))
	if r := next(t, s).(*Rows); r.Start != 1038+size {
		t.Errorf("%+v", r.At)
	}
	c := next(t, s).(*Commit)
	if o := s.Offset(); o.Pos != c.End || c.End != c.Start+27 || o.GTIDs != "0-5-7" {
		t.Errorf("%+v behind %+v", o, c.At)
	}
}

// TestLongEvents: an event longer than a packet, with the next one behind it.
func TestLongEvents(t *testing.T) {
	for _, n := range []int{fullPacket - 100, fullPacket - 1 - headerSize - 12, 3 * fullPacket, 2*fullPacket - 1 - headerSize - 12} {
		rows := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, n/7+1)[:n]
		s := play(MySQL, packets(rotate("b.1", 4), event(evQuery, 0, 100, statement("BEGIN")), event(evTableMap, 0, 200, oneColumn(1)),
			event(evWriteRows, 0, 300, rowsOf(1, rows)), event(evXID, 0, 400, le(8, 1))), Offset{})
		next(t, s)
		if r := next(t, s).(*Rows); !bytes.Equal(r.Data, rows) {
			t.Errorf("%d bytes of rows come as %d", n, len(r.Data))
		}
		next(t, s)
		ended(t, s)
		if len(s.wire.long) != 0 || cap(s.wire.buf) > fullPacket+2*wireBufferBytes {
			t.Errorf("%d bytes are kept", cap(s.wire.buf))
		}
	}
}

// TestServerDiedInATransaction: the file ends in a transaction, and the next one begins.
func TestServerDiedInATransaction(t *testing.T) {
	fde := append(append(append(le(2, 4), make([]byte, 54)...), headerSize), make([]byte, 50+1+checksumSize)...)
	s := play(MySQL, packets(rotate("b.1", 4), event(evQuery, 0, 100, statement("BEGIN")), rotate("b.2", 4), event(evFormat, 0, 126, fde),
		event(evQuery, 0, 200, statement("BEGIN")), event(evXID, 0, 300, le(8, 1))), Offset{})
	expect(t, story(t, s, 2), "begin", "rotate", "rolled back", "begin", "commit")
	if o := s.Offset(); o.File != "b.2" || o.Pos != 300 {
		t.Errorf("%+v", o)
	}
}

// TestSetFromAFilesBeginning: an offset without GTIDs learns them where the server tells all.
func TestSetFromAFilesBeginning(t *testing.T) {
	set := parse(t, MySQL, sourceA+":1-9")
	gtid := func(n uint64) []byte {
		return bytes.Join([][]byte{{1}, set.sources[0].id[:], le(8, n)}, nil)
	}
	s := play(MySQL, packets(rotate("b.1", 500), event(evPreviousGTIDs, 0, 126, set.encode()), event(evGTID, 0, 600, gtid(20)), event(evQuery, 0, 700, statement("DROP TABLE a")),
		event(evRotate, 0, 800, le(8, 4), []byte("b.2")), event(evPreviousGTIDs, 0, 150, set.encode()), event(evGTID, 0, 200, gtid(10)), event(evQuery, 0, 300, statement("DROP TABLE b"))),
		Offset{File: "b.1", Pos: 500})
	next(t, s)
	if o := s.Offset(); o.GTIDs != "" || o.Pos != 700 {
		t.Errorf("in the middle of a file: %+v", o)
	}
	next(t, s)
	next(t, s)
	if o := s.Offset(); o.GTIDs != sourceA+":1-10" || o.Pos != 300 || s.Before().GTIDs != sourceA+":1-9" || s.Before().Pos != 150 {
		t.Errorf("%+v, before %+v", o, s.Before())
	}
}

func TestHeartbeatsTellPlaces(t *testing.T) {
	beat := func(file string, pos uint64) []byte {
		return append(append(append([]byte{heartbeatFile, byte(len(file))}, file...), heartbeatPos, 9, 0xfe), append(le(8, pos), 0)...)
	}
	s := play(MySQL, packets(rotate("b.1", 4), event(evHeartbeatV2, 0, 9, beat("b.1", 6<<30)), event(evHeartbeatV2, 0, 9, beat("b.7", 7<<30)), event(evHeartbeat, 0, 0, []byte("b.1"))), Offset{})
	for range 3 {
		e, err := s.Next(t.Context())
		if _, ok := e.(*Heartbeat); !ok {
			t.Fatalf("%T, %v", e, err)
		}
	}
	if o := s.Offset(); o.Pos != 6<<30 || o.File != "b.1" {
		t.Errorf("%+v", o)
	}
}

// TestLoudEvents: what means that changes are missing or unreadable is never passed over.
func TestLoudEvents(t *testing.T) {
	for _, c := range []struct {
		name   string
		event  []byte
		class  Class
		phrase string
	}{
		{"incident", event(evIncident, 0, 100, le(2, 1), []byte("\x04lost")), Incident, "lost; changes are missing"},
		{"load data", event(evExecuteLoadQuery, 0, 100, make([]byte, 40)), StatementFormat, "LOAD DATA"},
		{"encryption", event(evStartEncryption, 0, 100, make([]byte, 40)), Corrupt, "encrypted"},
		{"rows of an unknown table", event(evWriteRows, 0, 100, rowsOf(77, nil)), Corrupt, "table number 77"},
		{"a length that lies", event(evXID, 0, 100, le(8, 1))[:20], Corrupt, "announced"},
		{"a table map that is cut off", event(evTableMap, 0, 100, oneColumn(1)[:12]), Corrupt, "cut off"},
	} {
		s := play(MySQL, packets(rotate("b.1", 4), c.event), Offset{})
		_, err := s.Next(t.Context())
		class(t, err, c.class)
		if !strings.Contains(err.Error(), c.phrase) || !strings.Contains(err.Error(), "binlog b.1:") {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, again := s.Next(t.Context()); again == nil || again.Error() != err.Error() {
			t.Errorf("%s: then %v", c.name, again)
		}
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]Class{
		"Cannot replicate because the source purged required binary logs. … the missing transactions are 'x:1'":                 Purged,
		"Could not find first log file name in binary log index file":                                                           Purged,
		"Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old":                 Purged,
		"A replica with the same server_uuid/server_id as this replica has connected to the source; the first event 'b.1' at 4": DuplicateServerID,
		"Client requested source to start replication from position > file size":                                                Diverged,
		"Replica has more GTIDs than the source has, using the source's SERVER_UUID":                                            Diverged,
		"Error: connecting slave requested to start from GTID 0-1-5, which is not in the master's binlog":                       Diverged,
		"bogus data in log event; the first event 'b.1' at 4":                                                                   Corrupt,
		"log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source":                                    Corrupt,
		"something new": Other,
	} {
		raw := append([]byte{0xff}, append(le(2, 1236), "#HY000"+text...)...)
		s := play(MySQL, append([]byte{byte(len(raw)), byte(len(raw) >> 8), 0, 0}, raw...), Offset{})
		_, err := s.Next(t.Context())
		class(t, err, want)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v", err)
		}
	}
	for code, want := range map[uint64]Class{1045: Denied, 1227: Denied, 1053: Lost, 1040: Lost, 1146: Other} {
		raw := append([]byte{0xff}, le(2, code)...)
		s := play(MySQL, append([]byte{byte(len(raw)), 0, 0, 0}, raw...), Offset{})
		_, err := s.Next(t.Context())
		class(t, err, want)
	}
}

// TestRecordedStreams plays what real servers have sent and compares the story that was told then. -record writes both.
func TestRecordedStreams(t *testing.T) {
	for _, d := range []Dialect{MySQL, MariaDB} {
		t.Run(d.String(), func(t *testing.T) {
			file := "testdata/" + d.String()
			if *record {
				recordStream(t, d, file)
			}
			raw, err := os.ReadFile(file + ".bin")
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(file + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			if got := retell(t, d, raw); got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// retell plays a recorded stream to its end.
func retell(t testing.TB, d Dialect, raw []byte) string {
	s := play(d, raw, Offset{})
	s.format.checksum, s.tracked = true, true
	var out strings.Builder
	for {
		e, err := s.Next(t.Context())
		if err != nil {
			if Classify(err) != Lost {
				t.Error(err)
			}
			return out.String()
		}
		fmt.Fprintf(&out, "%s\n", tell(e))
		if r, ok := e.(*Rows); ok {
			for _, c := range r.Table.Columns {
				fmt.Fprintf(&out, "  %+v\n", c)
			}
			fmt.Fprintf(&out, "  key %v, present %x %x, rows %x\n", r.Table.PrimaryKey, r.Present, r.PresentAfter, r.Data[:min(len(r.Data), 200)])
		}
		m, _ := s.Offset().Append(nil).MarshalJSON()
		fmt.Fprintf(&out, "  %s\n", m)
	}
}

// recordStream lets a server do what its dialect can, and keeps the packets.
func recordStream(t *testing.T, d Dialect, file string) {
	own := ownServer(t, d)
	own.exec(t, "FLUSH BINARY LOGS")
	start := own.here(t)
	statements := []string{"CREATE DATABASE db", "USE db",
		"CREATE TABLE a (id INT UNSIGNED PRIMARY KEY, s VARCHAR(20) CHARACTER SET latin1, e ENUM('x','ü') CHARACTER SET utf8mb4, f SET('p','q'), g POINT, d DECIMAL(10,3), b BLOB, t DATETIME(3), n TINYINT, v VARCHAR(300) COLLATE utf8mb4_bin)",
		"INSERT INTO a VALUES (1,'é','ü','p,q',POINT(1,2),3.141,x'00ff','2024-01-02 03:04:05.678',-3,'v'),(2,NULL,'x','',NULL,NULL,NULL,NULL,4,'')",
		"SET SESSION binlog_row_image=MINIMAL", "UPDATE a SET n=5 WHERE id=1", "DELETE FROM a WHERE id=2", "SET SESSION binlog_row_image=FULL",
		"CREATE TABLE k (x INT, y VARCHAR(50), z INT INVISIBLE, PRIMARY KEY (y(10),x))", "INSERT INTO k (x,y) VALUES (1,'long')"}
	if d == MySQL {
		statements = append(statements, "SET SESSION binlog_transaction_compression=ON", "INSERT INTO k (x,y) VALUES (2,'packed')", "SET SESSION binlog_transaction_compression=OFF",
			"SET gtid_next='AUTOMATIC:tag'", "INSERT INTO k (x,y) VALUES (3,'tagged')", "SET gtid_next='AUTOMATIC'", "CREATE TABLE j (id INT PRIMARY KEY, j JSON, w VECTOR(2))",
			`INSERT INTO j VALUES (1,'{"a":1,"b":"long enough to be worth it"}',TO_VECTOR('[1,2]'))`, "SET SESSION binlog_row_value_options=PARTIAL_JSON",
			"UPDATE j SET j=JSON_SET(j,'$.a',2)")
	} else {
		statements = append(statements, "SET GLOBAL log_bin_compress=ON", "SET GLOBAL log_bin_compress_min_len=10", "INSERT INTO k (x,y) VALUES (2,'"+strings.Repeat("packed", 8)+"')", "SET GLOBAL log_bin_compress=OFF",
			"CREATE TABLE j (id INT PRIMARY KEY, u UUID, i INET4, j JSON)", "INSERT INTO j VALUES (1,'00112233-4455-6677-8899-aabbccddeeff','1.2.3.4','{}')")
	}
	own.exec(t, append(statements, "XA START 'x'", "DELETE FROM k", "XA END 'x'", "XA PREPARE 'x'", "XA ROLLBACK 'x'", "FLUSH BINARY LOGS", "DROP TABLE a")...)
	end := own.here(t)
	var tee bytes.Buffer
	cfg := own.config("db")
	cfg.Annotate, cfg.Heartbeat = true, 0
	start.GTIDs = ""
	s := open(t, cfg, start)
	tee.Write(s.wire.buf[s.wire.r:s.wire.w])
	first := s.wire.buf[s.wire.r+3]
	s.wire.conn = &tape{Conn: s.wire.conn, r: io.TeeReader(s.wire.conn, &tee)}
	for s.Place() != (Position{end.File, end.Pos}) {
		next(t, s)
	}
	raw := tee.Bytes()
	for at := 0; at < len(raw); at += packetHeader + (int(raw[at]) | int(raw[at+1])<<8 | int(raw[at+2])<<16) {
		raw[at+3] -= first
	}
	if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(file+".bin", raw, 0o644), os.WriteFile(file+".txt", []byte(retell(t, d, raw)), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// FuzzStream: whatever a server sends, nothing breaks but the stream.
func FuzzStream(f *testing.F) {
	for d := range 2 {
		raw, err := os.ReadFile("testdata/" + Dialect(d).String() + ".bin")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, byte(d))
	}
	f.Add(packets(rotate("b.1", 4), event(evIncident, 0, 9, le(2, 1))), byte(0))
	f.Fuzz(func(t *testing.T, raw []byte, dialect byte) {
		s := play(Dialect(dialect%2), raw, Offset{})
		for range 10_000 {
			if _, err := s.Next(t.Context()); err != nil {
				break
			}
			_ = s.Offset()
		}
	})
}
