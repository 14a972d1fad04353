package meta

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// unpack writes the folders of a golden archive below a fresh folder.
func unpack(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o755)
		} else {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(to, b, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFoldersBeforeRaft: data folders that were written when one node alone kept the log (three starts, snapshots, one closed and one killed) open as
// they are, go on, and have an identity from then on.
func TestFoldersBeforeRaft(t *testing.T) {
	want, err := os.ReadFile("testdata/before-raft.image")
	if err != nil {
		t.Fatal(err)
	}
	dir := unpack(t, "before-raft.tar.gz")
	for _, name := range []string{"closed", "killed"} {
		s := openStore(t, filepath.Join(dir, name))
		if _, ok, err := ReadIdentity(s); ok || err != nil {
			t.Fatalf("%s: has an identity: %v", name, err)
		}
		q, err := Open(Options{Store: s, MaxCommandBytes: 1 << 16})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := text(t, q.image); got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		if q.leader != (leader{1, 4}) { // its last epoch was 2, raft's term 3
			t.Errorf("%s: leader %+v", name, q.leader)
		}
		answered := false
		q.Propose(create(99), time.Now(), func(_ Result, err error) { answered = err == nil })
		commit(t, s)
		if !answered {
			t.Errorf("%s: no command is taken", name)
		}
		grown := text(t, q.image)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		s = openStore(t, filepath.Join(dir, name))
		if i, ok, err := ReadIdentity(s); !ok || err != nil || i.Node != 1 || i.ClusterID != "golden-cluster-id" || i.IsFounded() {
			t.Errorf("%s: identity %+v, %v", name, i, err)
		}
		if _, err := Open(Options{Store: s, MaxCommandBytes: 1 << 16, Node: 2}); !errors.Is(err, ErrIdentity) {
			t.Errorf("%s: opened as another node: %v", name, err)
		}
		if q, err = Open(Options{Store: s, MaxCommandBytes: 1 << 16}); err != nil {
			t.Fatal(err)
		}
		if got := text(t, q.image); got != grown {
			t.Errorf("%s: after a restart\n%s\nwant\n%s", name, got, grown)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
