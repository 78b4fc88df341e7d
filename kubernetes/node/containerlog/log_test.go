package containerlog

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
)

func read(t *testing.T, l *Log, o Options) string {
	t.Helper()
	text, err := io.ReadAll(l.Read(t.Context(), o))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func pointer(n int64) *int64 { return &n }

// Each option selects its part of the log, whether the log is in memory or in a file. A closed log
// can be opened again from its file.
func TestRead(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, kept := range []string{"memory", "file"} {
		t.Run(kept, func(t *testing.T) {
			config := Config{}
			if kept == "file" {
				config.Path = filepath.Join(t.TempDir(), "log")
			}
			l, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			l.Append(start, Stdout, "one")
			l.Append(start.Add(time.Second), Stderr, "two")
			l.Append(start.Add(2*time.Second), Stdout, "")
			l.Append(start.Add(3*time.Second), Stdout, "four four")
			for _, test := range []struct {
				name    string
				options Options
				want    string
			}{
				{"all", Options{}, "one\ntwo\n\nfour four\n"},
				{"tail", Options{Tail: pointer(2)}, "\nfour four\n"},
				{"tail of nothing", Options{Tail: pointer(0)}, ""},
				{"tail of more", Options{Tail: pointer(1 << 62)}, "one\ntwo\n\nfour four\n"},
				{"limit", Options{Limit: pointer(6)}, "one\ntw"},
				{"since", Options{Since: start.Add(time.Second)}, "two\n\nfour four\n"},
				{"stream", Options{Stream: Stderr}, "two\n"},
				{"timestamps", Options{Timestamps: true, Tail: pointer(1)},
					"2026-01-01T00:00:03.000000000Z four four\n"},
				{"tail and since", Options{Tail: pointer(3), Since: start.Add(3 * time.Second)}, "four four\n"},
			} {
				if got := read(t, l, test.options); got != test.want {
					t.Errorf("%s: %q, want %q", test.name, got, test.want)
				}
			}
			l.Close()
			if kept == "file" {
				again, err := Open(config.Path)
				if err != nil {
					t.Fatal(err)
				}
				defer again.Release()
				if got := read(t, again, Options{Follow: true, Tail: pointer(2)}); got != "\nfour four\n" {
					t.Errorf("opened again: %q", got)
				}
			}
		})
	}
}

func TestWriterSplitsLines(t *testing.T) {
	l, _ := New(Config{})
	out, errs := l.Writer(Stdout), l.Writer(Stderr)
	fmt.Fprint(out, "he")
	fmt.Fprint(errs, "oops\n")
	fmt.Fprint(out, "llo\nlast")
	if got, want := read(t, l, Options{}), "oops\nhello\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	l.Close()
	if got, want := read(t, l, Options{}), "oops\nhello\nlast\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}

	l, _ = New(Config{})
	long := strings.Repeat("x", 2*maxLine+5)
	fmt.Fprintln(l.Writer(Stdout), long)
	if got := read(t, l, Options{}); got != long+"\n" {
		t.Errorf("a long line is returned as %d bytes, want %d", len(got), len(long)+1)
	}
	if got := read(t, l, Options{Timestamps: true}); strings.Count(got, "Z ") != 1 {
		t.Errorf("a long line has %d times", strings.Count(got, "Z "))
	}
}

func TestBounded(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "log")} {
		l, err := New(Config{Path: path, MaxBytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		slow := l.Read(t.Context(), Options{Follow: true})
		for i := range 1000 {
			l.Append(time.Now(), Stdout, fmt.Sprint("line ", i))
		}
		l.Close()
		got := read(t, l, Options{})
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
		l, _ := New(Config{})
		l.Append(time.Now(), Stdout, "before")
		var got []byte
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			got, err = io.ReadAll(l.Read(t.Context(), Options{Follow: true}))
		}()
		time.Sleep(time.Hour)
		l.Append(time.Now(), Stdout, "after")
		time.Sleep(time.Hour)
		l.Close()
		<-done
		if string(got) != "before\nafter\n" || err != nil {
			t.Errorf("%q, %v", got, err)
		}

		// A reader ends when its context does.
		l, _ = New(Config{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if _, err := io.ReadAll(l.Read(ctx, Options{Follow: true})); !errors.Is(err, context.Canceled) {
			t.Errorf("after cancel: %v", err)
		}
		r := l.Read(t.Context(), Options{Follow: true})
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
		l, _ := New(Config{})
		w := l.Writer(Stdout)
		for rest := text; len(rest) > 0; {
			n := min(max(size, 1), len(rest))
			io.WriteString(w, rest[:n])
			rest = rest[n:]
		}
		l.Close()
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if got := read(t, l, Options{}); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	})
}
