package traces

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/require"
)

const (
	one = `{"id":1,"run":"a","time":"2030-01-02T15:04:05Z","controller":"c","kind":"K","name":"n","duration":"1ms"}` +
		"\n"
	two = `{"id":2,"run":"a","time":"2030-01-02T15:04:06Z","controller":"c","kind":"K","name":"n","duration":"1ms"}` +
		"\n"
)

// A file that does not exist yet, grows by parts of lines, and is replaced.
func TestFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "trace")
		tr := New([]Source{{Place: name}})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go tr.Run(ctx)
		write := func(text string) {
			t.Helper()
			require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		}
		for _, step := range []struct {
			content string
			want    int
			err     string
		}{
			{"", 0, ""},
			{one[:20], 0, ""},
			// longer than the blocks in which the last line end is searched
			{one + strings.Repeat(" ", 200<<10), 1, ""},
			{one + two[:30], 1, ""},
			{one + two, 2, ""},
			{strings.ReplaceAll(one, `"a"`, `"b"`), 3, ""}, // another run
			{strings.ReplaceAll(one, `"a"`, `"b"`) + "nonsense\n", 3, "not a trace"},
		} {
			write(step.content)
			time.Sleep(3 * fileInterval) // of the bubble's clock
			if got := len(tr.Records()); got != step.want || !strings.Contains(tr.Errors()[name], step.err) {
				t.Errorf("%q: %d records, want %d; %v", step.content, got, step.want, tr.Errors())
			}
		}
	})
}

func TestURLs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(one + two))
	}))
	defer server.Close()
	tr := New(nil)
	tr.update(server.URL, urlReader(Source{Place: server.URL}), t.Context())
	if !strings.Contains(tr.Errors()[server.URL], "401") {
		t.Errorf("got %v", tr.Errors())
	}
	changed := tr.Changed()
	read := urlReader(Source{Place: server.URL, Token: "secret"})
	tr.update(server.URL, read, t.Context())
	tr.update(server.URL, read, t.Context()) // again, with the same records
	if len(tr.Records()) != 2 || len(tr.Errors()) > 0 {
		t.Errorf("got %d records, %v", len(tr.Records()), tr.Errors())
	}
	select {
	case <-changed:
	default:
		t.Error("the change was not signaled")
	}
}
