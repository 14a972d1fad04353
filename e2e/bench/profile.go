package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const profileLines = 5

// profileOf reads weir's CPU profile beside a run, once per scenario and side, and keeps it with its top lines; the
// answer waits for it. Other servers, and runs without -profile, have none.
func (b *bench) profileOf(ctx context.Context, name string, sd side, s *server, length time.Duration) (wait func() error) {
	path := filepath.Join(b.store, "profiles", strings.NewReplacer(", ", "-", " ", "-").Replace(name+"-"+sd.Name)+".pprof")
	if _, err := os.Stat(path); !b.profile || sd.Kind != kindWeir || err == nil {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() { done <- fetchProfile(ctx, s.console, path, length) }()
	return func() error { return <-done }
}

func fetchProfile(ctx context.Context, console, path string, length time.Duration) error {
	url := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", console, max(1, int(length.Seconds())))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s: %w", resp.Status, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// profileTop is the profile's first lines as go tool pprof prints them, for each profile of a scenario.
func profileTop(ctx context.Context, store, name string) []string {
	paths, _ := filepath.Glob(filepath.Join(store, "profiles", name+"-weir*.pprof"))
	var lines []string
	for _, path := range paths {
		out, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", fmt.Sprintf("-nodecount=%d", profileLines), path).Output()
		if err != nil {
			continue // a profile is a bonus
		}
		lines = append(lines, strings.TrimSuffix(filepath.Base(path), ".pprof"))
		all := strings.Split(strings.TrimSpace(string(out)), "\n")
		lines = append(lines, all[max(0, len(all)-profileLines-1):]...)
	}
	return lines
}
