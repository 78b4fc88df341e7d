package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"kelson.dev/apiserver/attacktest/bodies"
)

const (
	smallDisk = 96 << 20 // bytes of the file system that an attack fills
	largeDisk = 1 << 30  // after space has returned
	// recoverWithin is the time within which a server must accept writes after space has returned.
	recoverWithin = 30 * time.Second
)

// mountSmall mounts a file system of smallDisk bytes for the server's state, in memory.
func (s *server) mountSmall() error {
	s.disk = filepath.Join(s.dir, "disk")
	if err := os.Mkdir(s.disk, 0o700); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", s.disk, "tmpfs", 0, fmt.Sprintf("size=%d", smallDisk)); err != nil {
		s.disk = ""
		return &skipped{fmt.Errorf("mount a small file system: %w", err)}
	}
	return nil
}

// skipped is the reason why an attack cannot run on this machine.
type skipped struct{ error }

// fillDisk creates objects of 500 kB until the server's file system is full, and continues to try
// until ctx ends. It writes the names of acknowledged objects to a file.
func fillDisk(ctx context.Context, t *target) error {
	var (
		mu    sync.Mutex
		names []string
	)
	value := strings.Repeat("x", 500_000)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := 0; i < 2_000 && ctx.Err() == nil; i++ {
				name := fmt.Sprintf("full-%d-%d", g, i)
				status, err := t.send(ctx, editor, http.MethodPost, defaultMaps, bodies.JSON, configMap(name, value))
				t.count(status, err)
				if status == http.StatusCreated {
					mu.Lock()
					names = append(names, name)
					mu.Unlock()
				} else {
					sleep(ctx, 100*time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	return os.WriteFile(filepath.Join(t.keys, acknowledged), []byte(strings.Join(names, "\n")), 0o600)
}

const acknowledged = "acknowledged"

// returnSpace checks that a server whose disk is full reports this, frees space, and checks that
// the server then accepts writes again. It returns how long that took, and the response to a write
// while the disk was full.
func (s *server) returnSpace(ctx context.Context) (took time.Duration, answer string, err error) {
	var status int
	for range 200 { // uses the last free bytes
		status, err = s.target.send(ctx, editor, http.MethodPost, defaultMaps, bodies.JSON,
			configMap(fmt.Sprint("last-", time.Now().UnixNano()), strings.Repeat("x", 500_000)))
		if status != http.StatusCreated {
			break
		}
	}
	switch {
	case status < 500 || err == nil:
		return 0, "", fmt.Errorf("disk full: a write got %d: %v, want an error of the server", status, err)
	case strings.Contains(err.Error(), s.disk):
		return 0, "", fmt.Errorf("disk full: the response shows the data directory: %w", err)
	}
	answer = err.Error()
	if _, err := s.target.send(ctx, anonymous, http.MethodGet, "/livez", "", ""); err != nil {
		return 0, answer, fmt.Errorf("disk full: a restart would not help: %w", err)
	}
	if err := syscall.Mount("tmpfs", s.disk, "tmpfs", syscall.MS_REMOUNT,
		fmt.Sprintf("size=%d", largeDisk)); err != nil {
		return 0, answer, fmt.Errorf("return space: %w", err)
	}
	begin := time.Now()
	for i := 0; ; i++ {
		_, err := s.target.send(ctx, innocent, http.MethodPost, tenantMaps, bodies.JSON,
			configMap(fmt.Sprint("space-", i), "x"))
		took := time.Since(begin)
		if err == nil {
			return took, answer, nil
		}
		if took > recoverWithin || ctx.Err() != nil {
			return took, answer, fmt.Errorf("no write in %s after space returned: %w", short(took), err)
		}
		sleep(ctx, 100*time.Millisecond)
	}
}

// complete checks that the server has every object whose creation was acknowledged.
func (s *server) complete(ctx context.Context) (n int, err error) {
	data, err := os.ReadFile(filepath.Join(s.target.keys, acknowledged))
	if err != nil {
		return 0, err
	}
	names := strings.Fields(string(data))
	if len(names) == 0 {
		return 0, errors.New("disk full: no write was acknowledged")
	}
	for _, name := range names {
		if _, err := s.target.send(ctx, editor, http.MethodGet, defaultMaps+"/"+name, "", ""); err != nil {
			return 0, fmt.Errorf("an acknowledged object is missing: %w", err)
		}
	}
	return len(names), nil
}

// survives checks the state of a server whose disk was full after its restart.
func (s *server) survives(ctx context.Context) error {
	if _, err := s.complete(ctx); err != nil {
		return err
	}
	if err := s.restart(); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return fmt.Errorf("restart after the disk was full: %w", err)
	}
	_, err := s.complete(ctx)
	return err
}
