package provider

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxFileBytes bounds what is read of one file.
const maxFileBytes = 1 << 20

// files reads values from files, below allowed folders only; no allowed folder means that all are.
type files struct {
	allowed []string
}

func newFiles(params map[string]string) *files {
	f := &files{}
	for p := range strings.SplitSeq(params["allowed.paths"], ",") {
		if p = strings.TrimSpace(p); p != "" {
			f.allowed = append(f.allowed, real(p))
		}
	}
	return f
}

// real follows links and dots, as far as the path exists.
func real(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if followed, err := filepath.EvalSymlinks(path); err == nil {
		return followed
	}
	return filepath.Clean(path)
}

func (f *files) allows(path string) bool {
	if len(f.allowed) == 0 {
		return true
	}
	path = real(path)
	for _, a := range f.allowed {
		if path == a || strings.HasPrefix(path, strings.TrimSuffix(a, "/")+"/") {
			return true
		}
	}
	return false
}

// properties reads a .properties file.
func (f *files) properties(path string) (map[string]string, error) {
	if path == "" || !f.allows(path) {
		return nil, nil
	}
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return parseProperties(text), nil
}

// directory reads every regular file of a folder: its name is the key, its content the value.
func (f *files) directory(path string) (map[string]string, error) {
	if path == "" || !f.allows(path) {
		return nil, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		if info, statErr := os.Stat(path); statErr != nil && errors.Is(statErr, fs.ErrNotExist) || statErr == nil && !info.IsDir() {
			return nil, nil
		}
		return nil, fmt.Errorf("%w: %w", ErrRead, err)
	}
	values := map[string]string{}
	for _, e := range entries {
		file := filepath.Join(path, e.Name())
		info, err := os.Stat(file)
		if err != nil || !info.Mode().IsRegular() || !f.allows(file) {
			continue
		}
		if values[e.Name()], err = readFile(file); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func readFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrRead, err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrRead, err)
	}
	if len(b) > maxFileBytes {
		return "", fmt.Errorf("%w: %s is larger than %d bytes", ErrRead, path, maxFileBytes)
	}
	return string(b), nil
}
