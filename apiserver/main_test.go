package apiserver

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
)

// AGG-02: a server adjusts garbage collection only if the process is its own.
func TestManagesOwnMemoryOnly(t *testing.T) {
	t.Setenv("GOGC", "")
	for _, owns := range []bool{false, true} {
		before := debug.SetGCPercent(100)
		t.Cleanup(func() { debug.SetGCPercent(before) })
		ctx, cancel := context.WithCancel(t.Context())
		log, stderr := io.Pipe()
		ended := make(chan error, 1)
		dir := t.TempDir()
		args := []string{"--standalone", "--secure-port=0", "--cert-dir=" + dir, "--data-dir=" + filepath.Join(dir, "state")}
		go func() {
			err := serve(ctx, args, stderr, owns)
			stderr.CloseWithError(err)
			ended <- err
		}()
		lines := bufio.NewScanner(log)
		serving := false
		for lines.Scan() {
			if strings.Contains(lines.Text(), "msg=serving") {
				serving = true
				sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
				metrics.Read(sample)
				if changed := sample[0].Value.Uint64() != 100; changed != owns {
					t.Errorf("owns the process: %t; GOGC is %d", owns, sample[0].Value.Uint64())
				}
				cancel()
			}
		}
		cancel()
		if err := <-ended; err != nil || !serving {
			t.Fatalf("serving: %t, %v", serving, err)
		}
	}
}
