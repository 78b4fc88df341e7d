package apitest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"kelson.dev/internal/require"
)

// Stream is an open watch.
type Stream struct {
	resp  *http.Response
	lines *bufio.Reader
}

// Watch opens a watch, which must succeed. It is closed at the end of the test.
func (p *Plane) Watch(t testing.TB, path string, header ...string) *Stream {
	t.Helper()
	resp := p.Do(t, "GET", path, "", header...)
	if resp.StatusCode != 200 {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("watch %s: %d\n%s", path, resp.StatusCode, body)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &Stream{resp, bufio.NewReader(resp.Body)}
}

// Next reads one event; ok is false at the end of the stream.
func (s *Stream) Next(t testing.TB) (typ string, obj Object, ok bool) {
	t.Helper()
	line, err := s.lines.ReadBytes('\n')
	if err == io.EOF && len(line) == 0 {
		return "", nil, false
	}
	require.NoError(t, err)
	var event struct {
		Type   string
		Object Object
	}
	if err := json.Unmarshal(line, &event); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return event.Type, event.Object, true
}

// Expect reads events and compares them with want, each of the form "TYPE name".
func (s *Stream) Expect(t testing.TB, want ...string) {
	t.Helper()
	for _, w := range want {
		typ, obj, ok := s.Next(t)
		if got := fmt.Sprint(typ, " ", At(obj, "metadata", "name")); !ok || got != w {
			t.Fatalf("event %q %v, want %q", got, obj, w)
		}
	}
}

// Close ends the watch before the end of the test.
func (s *Stream) Close() { s.resp.Body.Close() }
