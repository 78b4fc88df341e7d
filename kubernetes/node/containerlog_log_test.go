package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/kubernetes/node/containerlog"
)

func readLog(t *testing.T, l *containerlog.Log, o containerlog.Options) string {
	t.Helper()
	text, err := io.ReadAll(l.Read(t.Context(), o))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// maxLine is the longest text of an entry, in bytes.
const maxLine = 16 << 10

func pointer(n int64) *int64 { return &n }

// Each option selects its part of the log, whether the log is in memory or in a file. A closed log
// can be opened again from its file.
func TestRead(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, kept := range []string{"memory", "file"} {
		t.Run(kept, func(t *testing.T) {
			config := containerlog.Config{}
			if kept == "file" {
				config.Path = filepath.Join(t.TempDir(), "log")
			}
			l, err := containerlog.New(config)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			l.Append(start, containerlog.Stdout, "one")
			l.Append(start.Add(time.Second), containerlog.Stderr, "two")
			l.Append(start.Add(2*time.Second), containerlog.Stdout, "")
			l.Append(start.Add(3*time.Second), containerlog.Stdout, "four four")
			for _, test := range []struct {
				name    string
				options containerlog.Options
				want    string
			}{
				{"all", containerlog.Options{}, "one\ntwo\n\nfour four\n"},
				{"tail", containerlog.Options{Tail: pointer(2)}, "\nfour four\n"},
				{"tail of nothing", containerlog.Options{Tail: pointer(0)}, ""},
				{"tail of more", containerlog.Options{Tail: pointer(1 << 62)}, "one\ntwo\n\nfour four\n"},
				{"limit", containerlog.Options{Limit: pointer(6)}, "one\ntw"},
				{"since", containerlog.Options{Since: start.Add(time.Second)}, "two\n\nfour four\n"},
				{"stream", containerlog.Options{Stream: containerlog.Stderr}, "two\n"},
				{"timestamps", containerlog.Options{Timestamps: true, Tail: pointer(1)},
					"2026-01-01T00:00:03.000000000Z four four\n"},
				{"tail and since", containerlog.Options{Tail: pointer(3), Since: start.Add(3 * time.Second)}, "four four\n"},
			} {
				if got := readLog(t, l, test.options); got != test.want {
					t.Errorf("%s: %q, want %q", test.name, got, test.want)
				}
			}
			l.Close()
			if kept == "file" {
				again, err := containerlog.Open(config.Path)
				if err != nil {
					t.Fatal(err)
				}
				defer again.Release()
				if got := readLog(t, again, containerlog.Options{Follow: true, Tail: pointer(2)}); got != "\nfour four\n" {
					t.Errorf("opened again: %q", got)
				}
			}
		})
	}
}

func TestWriterSplitsLines(t *testing.T) {
	l, _ := containerlog.New(containerlog.Config{})
	out, errs := l.Writer(containerlog.Stdout), l.Writer(containerlog.Stderr)
	fmt.Fprint(out, "he")
	fmt.Fprint(errs, "oops\n")
	fmt.Fprint(out, "llo\nlast")
	if got, want := readLog(t, l, containerlog.Options{}), "oops\nhello\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	l.Close()
	if got, want := readLog(t, l, containerlog.Options{}), "oops\nhello\nlast\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}

	l, _ = containerlog.New(containerlog.Config{})
	long := strings.Repeat("x", 2*maxLine+5)
	fmt.Fprintln(l.Writer(containerlog.Stdout), long)
	if got := readLog(t, l, containerlog.Options{}); got != long+"\n" {
		t.Errorf("a long line is returned as %d bytes, want %d", len(got), len(long)+1)
	}
	if got := readLog(t, l, containerlog.Options{Timestamps: true}); strings.Count(got, "Z ") != 1 {
		t.Errorf("a long line has %d times", strings.Count(got, "Z "))
	}
}

func TestBounded(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "log")} {
		l, err := containerlog.New(containerlog.Config{Path: path, MaxBytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		slow := l.Read(t.Context(), containerlog.Options{Follow: true})
		for i := range 1000 {
			l.Append(time.Now(), containerlog.Stdout, fmt.Sprint("line ", i))
		}
		l.Close()
		got := readLog(t, l, containerlog.Options{})
		if !strings.HasSuffix(got, "line 998\nline 999\n") || len(got) > 1000 || len(got) < 50 {
			t.Errorf("the log has %d bytes: %q", len(got), got)
		}
		rest, err := io.ReadAll(slow)
		if err != nil || string(rest) != got {
			t.Errorf("the slow reader got %q, %v", rest, err)
		}
		l.Release()
	}
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := containerlog.New(containerlog.Config{})
		l.Append(time.Now(), containerlog.Stdout, "before")
		var got []byte
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			got, err = io.ReadAll(l.Read(t.Context(), containerlog.Options{Follow: true}))
		}()
		time.Sleep(time.Hour)
		l.Append(time.Now(), containerlog.Stdout, "after")
		time.Sleep(time.Hour)
		l.Close()
		<-done
		if string(got) != "before\nafter\n" || err != nil {
			t.Errorf("%q, %v", got, err)
		}

		// A reader ends when its context does.
		l, _ = containerlog.New(containerlog.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if _, err := io.ReadAll(l.Read(ctx, containerlog.Options{Follow: true})); !errors.Is(err, context.Canceled) {
			t.Errorf("after cancel: %v", err)
		}
		r := l.Read(t.Context(), containerlog.Options{Follow: true})
		time.AfterFunc(time.Minute, func() { r.Close() })
		if _, err := io.ReadAll(r); err == nil {
			t.Error("after Close: no error")
		}
	})
}

// The log returns what was written, however the writes were split.
func FuzzWriter(f *testing.F) {
	f.Add("a\nb", 1)
	f.Add("", 3)
	f.Add("\n\n x y z\r\n", 2)
	f.Add(strings.Repeat("z", maxLine+1), 1000)
	f.Fuzz(func(t *testing.T, text string, size int) {
		l, _ := containerlog.New(containerlog.Config{})
		w := l.Writer(containerlog.Stdout)
		for rest := text; len(rest) > 0; {
			n := min(max(size, 1), len(rest))
			io.WriteString(w, rest[:n])
			rest = rest[n:]
		}
		l.Close()
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if got := readLog(t, l, containerlog.Options{}); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	})
}
