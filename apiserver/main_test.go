package apiserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"kelson.dev/internal/require"
)

// A server adjusts garbage collection only if the process is its own.
func TestManagesOwnMemoryOnly(t *testing.T) {
	t.Setenv("GOGC", "")
	for _, owns := range []bool{false, true} {
		before := debug.SetGCPercent(100)
		t.Cleanup(func() { debug.SetGCPercent(before) })
		ctx, cancel := context.WithCancel(t.Context())
		log, stderr := io.Pipe()
		ended := make(chan error, 1)
		dir := t.TempDir()
		args := []string{"--standalone", "--secure-port=0", "--cert-dir=" + dir,
			"--data-dir=" + filepath.Join(dir, "state")}
		go func() {
			err := serve(ctx, args, stderr, slog.New(slog.NewTextHandler(stderr, nil)), owns)
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

// The server's own lines, and the warnings and errors of Kubernetes' libraries, have one format.
func TestLogHasOneFormat(t *testing.T) {
	const child, last = "KELSON_TEST_LOG", "the last line"
	if dir := os.Getenv(child); dir != "" {
		os.Args = []string{"server", "--standalone", "--secure-port=0", "--cert-dir=" + dir,
			"--data-dir=" + filepath.Join(dir, "state")}
		Main(Run(func(ctx context.Context, _ *Server) error {
			klog.Info("not shown")
			klog.Warningf("%d warning", 1)
			klog.ErrorS(errors.New("broken"), "List failed", "pod", klog.KRef("ns", "web"))
			klog.FromContext(ctx).Error(errors.New("broken"), last)
			<-ctx.Done()
			return nil
		}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestLogHasOneFormat$")
	server.Env = append(os.Environ(), child+"="+t.TempDir())
	stderr, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	defer server.Wait()
	defer cancel()
	own, want := false, []string{`level=WARN msg="1 warning"`,
		`level=ERROR msg="List failed" err=broken pod.name=web pod.namespace=ns`,
		`level=ERROR msg="` + last + `" err=broken`}
	format := regexp.MustCompile(`^time=\S+ (level=[A-Z]+ msg=.*)$`)
	for lines := bufio.NewScanner(stderr); (!own || len(want) > 0) && lines.Scan(); {
		line := format.FindStringSubmatch(lines.Text())
		switch {
		case line == nil:
			t.Errorf("another format: %s", lines.Text())
		case strings.HasPrefix(line[1], "level=INFO msg=serving "):
			own = true
		case len(want) > 0 && line[1] == want[0]:
			want = want[1:]
		default:
			t.Errorf("unexpected line: %s", line[1])
		}
	}
	if !own || len(want) > 0 {
		t.Errorf("the server logged that it serves: %t; missing lines: %q", own, want)
	}
}
