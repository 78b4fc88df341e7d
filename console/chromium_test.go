package console_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// startAttempts bounds how often a test starts Chromium. On busy machines, a start fails now and
// then without a defect.
const startAttempts = 3

// shared is the browser of all tests of this process. Each test has its own browser context in it:
// its own cookies, storage and cache.
var shared struct {
	sync.Mutex
	ctx  context.Context
	stop func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.stop != nil {
		shared.stop()
	}
	os.Exit(code)
}

// chromium finds the browser, or skips the test.
func chromium(t testing.TB) string {
	t.Helper()
	require.Long(t, "starts a browser")
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && name != "" {
			return path
		}
	}
	t.Skip("SKIPPED: no Chromium found; install one, or set CHROMIUM to its path")
	return ""
}

// browser returns the context of the shared browser. It starts one if none runs, or if the last one
// crashed.
func browser(t testing.TB) context.Context {
	t.Helper()
	path := chromium(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.ctx != nil && shared.ctx.Err() == nil {
		return shared.ctx
	}
	if shared.stop != nil {
		t.Log("Chromium ended during an earlier test; starting another")
		shared.stop()
		shared.ctx, shared.stop = nil, nil
	}
	ctx, stop, err := startBrowser(path)
	require.NoError(t, err)
	shared.ctx, shared.stop = ctx, stop
	return ctx
}

// startBrowser starts Chromium, and retries if a start fails. The error has the output of each
// attempt. Callers call stop once; it waits until the browser has ended and its files are removed.
func startBrowser(path string) (ctx context.Context, stop func(), err error) {
	var failures []error
	for attempt := range startAttempts {
		if ctx, stop, err = startOnce(path); err == nil {
			return ctx, stop, nil
		}
		failures = append(failures, fmt.Errorf("start Chromium, attempt %d of %d: %w", attempt+1, startAttempts, err))
	}
	return nil, nil, errors.Join(failures...)
}

// startOnce starts Chromium with a new user data directory, which chromedp creates and removes.
func startOnce(path string) (context.Context, func(), error) {
	var printed tail
	var command *exec.Cmd
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path),
		chromedp.NoSandbox,  // the sandbox does not work in containers and for root
		chromedp.DisableGPU, // do not search for a GPU
		chromedp.CombinedOutput(&printed),
		// Chromium ends when its debugging pipe closes, also if this process is killed
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) { command = cmd }))
	limited, cancelStart := context.WithCancelCause(context.Background())
	alloc, cancelAlloc := chromedp.NewExecAllocator(limited, options...)
	ctx, cancel := chromedp.NewContext(alloc)
	kill := func() {
		cancel()
		cancelAlloc()
		cancelStart(nil)
	}
	timer := time.AfterFunc(stepTime, func() { cancelStart(fmt.Errorf("no answer within %s", stepTime)) })
	err := chromedp.Do(ctx)
	timer.Stop()
	if err == nil && limited.Err() == nil {
		return ctx, func() {
			closing, done := context.WithTimeout(ctx, time.Minute)
			defer done()
			_ = chromedp.Cancel(closing) // a browser that crashed cannot be closed
			kill()
		}, nil
	}
	if cause := context.Cause(limited); cause != nil {
		err = cause
	}
	kill() // waits for the exit status and for the end of the output
	reason, _, _ := strings.Cut(err.Error(), "\n")
	status := "not started"
	if command != nil && command.ProcessState != nil {
		status = command.ProcessState.String()
	}
	return nil, nil, fmt.Errorf("%s (%s)\n%s", reason, status, printed.lines(20))
}

// tail keeps the end of a program's output.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if excess := len(t.data) - 16<<10; excess > 0 {
		t.data = t.data[excess:]
	}
	return len(p), nil
}

func (t *tail) lines(n int) []byte {
	lines := bytes.Split(bytes.TrimSpace(t.data), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}

// A start that fails is repeated with a new user data directory.
func TestBrowserStartsAgain(t *testing.T) {
	path := chromium(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "chromium")
	write(t, script, `#!/bin/sh
for a; do case $a in --user-data-dir=*) echo "$a" >>`+dir+`/starts;; esac; done
[ $(wc -l <`+dir+`/starts) -gt 2 ] || exit 1
exec `+path+` "$@"
`)
	ctx, stop, err := startBrowser(script)
	require.NoError(t, err)
	defer stop()
	sum, err := chromedp.Run(ctx, chromedp.Evaluate[int](`20 + 22`))
	if err != nil || sum != 42 {
		t.Errorf("got %d, %v", sum, err)
	}
	starts, err := os.ReadFile(filepath.Join(dir, "starts"))
	require.NoError(t, err)
	lines := strings.Fields(string(starts))
	slices.Sort(lines)
	assert.Equalf(t, len(slices.Compact(lines)), 3, "user data directories: %s", starts)
}

// The error of a browser that never starts has the exit status and the last lines of each attempt.
func TestBrowserDoesNotStart(t *testing.T) {
	chromium(t)
	script := filepath.Join(t.TempDir(), "chromium")
	write(t, script, "#!/bin/sh\nseq 100 >&2\necho no space left >&2\nexit 7\n")
	_, _, err := startBrowser(script)
	if err == nil {
		t.Fatal("started")
	}
	text := err.Error()
	if strings.Count(text, "(exit status 7)\n82\n") != startAttempts ||
		strings.Count(text, "100\nno space left") != startAttempts || !strings.Contains(text, "attempt 3 of 3") {
		t.Error(text)
	}
	_, _, err = startBrowser(filepath.Join(t.TempDir(), "missing"))
	assert.ErrorContains(t, err, "not started")
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o755))
}
