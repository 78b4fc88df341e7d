//go:build linux

package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kelson.dev/kubernetes/node/containerlog"
)

// Lines that a full disk does not accept are lost, and later ones are stored when there is space,
// also if the log could not be rotated.
func TestFullDisk(t *testing.T) {
	for _, max := range []int64{0, 8 << 10} {
		t.Run(fmt.Sprint(max), func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
				t.Skipf("SKIPPED: needs the right to mount: %v", err)
			}
			t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
			log, err := containerlog.New(containerlog.Config{Path: filepath.Join(dir, "log"), MaxBytes: max})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(log.Release)
			w := log.Writer(containerlog.Stdout)
			write := func(text string) error {
				_, err := io.WriteString(w, text+"\n")
				return err
			}
			if err := write("before"); err != nil {
				t.Fatal(err)
			}
			ballast, err := os.Create(filepath.Join(dir, "ballast"))
			if err != nil {
				t.Fatal(err)
			}
			defer ballast.Close()
			for err == nil {
				_, err = ballast.Write(make([]byte, os.Getpagesize()))
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			long := strings.Repeat("x", 1000)
			for err = nil; err == nil; { // the first page of the log has room
				err = write(long)
			}
			for range 10 {
				if err := write("lost " + long); !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("got %v", err)
				}
			}
			if err := ballast.Truncate(0); err != nil {
				t.Fatal(err)
			}
			if err := write("after"); err != nil {
				t.Error(err)
			}
			if err := log.Close(); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Close: %v", err)
			}
			stored, err := containerlog.Open(filepath.Join(dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer stored.Release()
			for name, l := range map[string]*containerlog.Log{"the log": log, "the files": stored} {
				text, err := io.ReadAll(l.Read(context.Background(), containerlog.Options{}))
				lines := strings.Split(string(text), "\n")
				if err != nil || lines[0] != "before" || len(lines) < 3 || lines[len(lines)-2] != "after" ||
					strings.Contains(string(text), "lost") {
					t.Errorf("%s: %.40q, %v", name, lines, err)
				}
			}
		})
	}
}
