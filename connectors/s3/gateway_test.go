package s3

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
)

// gateway is a real S3 server, versitygw, over a folder of its own; the tests read the folder, not the server.
type gateway struct {
	binary, dir, address string
	process              *exec.Cmd
	buckets              int
}

var server *gateway

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	binary := os.Getenv("WEIR_TEST_S3")
	if binary == "" {
		binary = filepath.Join("..", "..", ".run", "bin", "versitygw")
	}
	if _, err := os.Stat(binary); err != nil {
		fmt.Fprintf(os.Stderr, "these tests need a real S3 server: put versitygw at .run/bin (e2e/services/s3.sh install) or name it in WEIR_TEST_S3: %v\n", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "weir-s3-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server = &gateway{binary: binary, dir: dir, address: listener.Addr().String()}
	listener.Close()
	if err := server.start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.stop()
	return m.Run()
}

func (g *gateway) start() error {
	g.process = exec.Command(g.binary, "--port", g.address, "--region", "us-east-1", "posix", g.dir)
	g.process.Env = append(os.Environ(), "ROOT_ACCESS_KEY=weir", "ROOT_SECRET_KEY=weir-secret")
	var out bytes.Buffer
	g.process.Stdout, g.process.Stderr = &out, &out
	if err := g.process.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if response, err := http.Get("http://" + g.address + "/"); err == nil {
			response.Body.Close()
			return nil
		}
	}
	g.stop()
	return fmt.Errorf("versitygw does not answer: %s", out.String())
}

func (g *gateway) stop() {
	_ = g.process.Process.Kill()
	_ = g.process.Wait()
}

// bucket makes a bucket and a configuration that names it.
func (g *gateway) bucket(t testing.TB) (string, connect.Config) {
	t.Helper()
	g.buckets++
	name := fmt.Sprintf("bucket-%d", g.buckets)
	if err := os.Mkdir(filepath.Join(g.dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
	return name, connect.Config{
		"s3.bucket.name": name, "s3.region": "us-east-1", "store.url": "http://" + g.address,
		"aws.access.key.id": "weir", "aws.secret.access.key": "weir-secret",
		"flush.size": "10", "s3.compression.type": "gzip", "rotate.idle.ms": "30",
		"s3.retry.backoff.ms": "10", "retry.backoff.ms": "20",
	}
}

// objects gives the objects of a bucket with their bytes, unpacked.
func (g *gateway) objects(t testing.TB, bucket string) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := filepath.Join(g.dir, bucket)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && entry.Name() == ".sgwtmp" {
				return fs.SkipDir
			}
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".gz") {
			r, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				return err
			}
			if !r.ModTime.IsZero() {
				t.Errorf("%s has a time in it: its bytes are not those of a replay", path)
			}
			if b, err = io.ReadAll(r); err != nil {
				return err
			}
		}
		key, err := filepath.Rel(root, path)
		out[key] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// lines gives the lines of all objects.
func (g *gateway) lines(t testing.TB, bucket string) []string {
	var out []string
	for _, text := range g.objects(t, bucket) {
		out = append(out, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	}
	slices.Sort(out)
	return out
}
