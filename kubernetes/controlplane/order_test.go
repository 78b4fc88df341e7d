package controlplane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// conversation is an HTTP/2 connection whose frames are read one by one, in the order of arrival.
type conversation struct {
	*unread
	partial map[uint32][]byte                // by stream: the data after the last complete line
	event   func(stream uint32, line []byte) // called for each line of a watch
}

const wide = 1 << 30 // a flow-control window that never closes

func (s *site) converse(t testing.TB, name string, groups ...string) *conversation {
	t.Helper()
	c := &conversation{unread: s.framed(t, wide, name, groups...), partial: map[uint32][]byte{}}
	c.must(c.framer.WriteWindowUpdate(0, wide))
	return c
}

// send opens a stream and returns its id.
func (c *conversation) send(method, path, body string) uint32 {
	c.t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0)
	for _, field := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "x"}, {":path", path},
		{"content-type", "application/json"}} {
		c.must(encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	id := c.next
	c.next += 2
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true,
		EndStream: body == ""}))
	if body != "" {
		c.must(c.framer.WriteData(id, true, []byte(body)))
	}
	return id
}

// read reads frames until the given stream has a header, and also its end if ends is set.
func (c *conversation) read(id uint32, ends bool) {
	c.t.Helper()
	for {
		frame, err := c.framer.ReadFrame()
		c.must(err)
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.must(c.framer.WriteSettingsAck())
			}
		case *http2.PingFrame:
			c.must(c.framer.WritePing(true, f.Data))
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			c.t.Fatalf("%v", frame)
		case *http2.HeadersFrame:
			if f.StreamID == id && (!ends || f.StreamEnded()) {
				return
			}
		case *http2.DataFrame:
			if f.StreamID == id && f.StreamEnded() {
				return
			}
			rest := append(c.partial[f.StreamID], f.Data()...)
			for f.StreamID != id {
				line, after, whole := bytes.Cut(rest, []byte("\n"))
				if !whole {
					break
				}
				c.event(f.StreamID, line)
				rest = after
			}
			c.partial[f.StreamID] = slices.Clone(rest)
		}
	}
}

// A client that writes after the response to an earlier write finds the events in this order, in
// two watches of two resources on one connection. The response itself does not wait for events.
func TestEventsInTheOrderOfResponses(t *testing.T) {
	rounds := storetest.Rounds(t, 2000)
	s := onPort(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
	c := s.converse(t, "ann", user.SystemPrivilegedGroup)
	type object struct {
		Object struct {
			Metadata struct{ Name, Namespace string }
		}
	}
	seen := map[string]bool{} // namespaces of which the first watch has received an event
	var inversions, children int
	namespaces := c.send("GET", "/api/v1/namespaces?watch=1&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "")
	c.event = func(stream uint32, line []byte) {
		var e object
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch {
		case stream == namespaces:
			seen[e.Object.Metadata.Name] = true
		case strings.HasPrefix(e.Object.Metadata.Namespace, "order-"):
			if children++; !seen[e.Object.Metadata.Namespace] {
				inversions++
			}
		}
	}
	c.read(namespaces, false)
	c.read(c.send("GET", "/api/v1/configmaps?watch=1", ""), false)
	for i := range rounds {
		name := fmt.Sprint("order-", i)
		c.read(c.send("POST", "/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`), true)
		c.read(c.send("POST", "/api/v1/namespaces/"+name+"/configmaps", `{"metadata":{"name":"c"}}`), true)
	}
	// The last write waits for the events before it.
	c.read(c.send("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"last"}}`), true)
	t.Logf("%d rounds: %d inversions", rounds, inversions)
	if inversions > 0 || children != rounds {
		t.Errorf("in %d rounds, %d events of a namespace came after that of an object in it; %d such objects", rounds,
			inversions, children)
	}
}

// The time between the events of an immediate deletion over HTTP/2 equals that between the events
// of two commits, and their order is always the same. Clients in this process do not wait.
func TestImmediateDeletion(t *testing.T) {
	rounds := storetest.Rounds(t, 1500)
	s := onPort(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
	c := s.converse(t, "ann", user.SystemPrivilegedGroup)
	const pods = "/api/v1/namespaces/default/pods"
	c.read(c.send("POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"default"}}`), true)
	var order []string
	var marked time.Time
	var gaps []time.Duration
	c.event = func(_ uint32, line []byte) {
		var e struct{ Type string }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch order = append(order, e.Type); e.Type {
		case "MODIFIED":
			marked = time.Now()
		case "DELETED":
			gaps = append(gaps, time.Since(marked))
		}
	}
	c.read(c.send("GET", pods+"?watch=1", ""), false)
	inversions := 0
	for i := range rounds {
		name := fmt.Sprint("p", i)
		c.read(c.send("POST", pods, `{"metadata":{"name":"`+name+
			`"},"spec":{"containers":[{"name":"c","image":"i"}]}}`), true)
		c.read(c.send("DELETE", pods+"/"+name+"?gracePeriodSeconds=0", ""), true)
	}
	// The last write waits for the events before it.
	c.read(c.send("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"last"}}`), true)
	for round := range slices.Chunk(order, 3) {
		if strings.Join(round, " ") != "ADDED MODIFIED DELETED" {
			inversions++
		}
	}
	if inversions > 0 || len(gaps) != rounds {
		t.Fatalf("%d of %d rounds had other events, or another order; %d deletions", inversions, rounds, len(gaps))
	}
	slices.Sort(gaps)
	t.Logf("%d rounds, gap: median %s, shortest %s", rounds, gaps[rounds/2], gaps[0])
	if median := gaps[rounds/2]; median < time.Millisecond {
		t.Errorf("the median gap is %s", median)
	}
}

// An immediate deletion in process takes no additional time.
func TestImmediateDeletionInProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := start(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
		admin := &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
		const pods = "/api/v1/namespaces/default/pods"
		if code, answer := ask(t, plane, admin, "POST", "/api/v1/namespaces/default/serviceaccounts",
			`{"metadata":{"name":"default"}}`); code != http.StatusCreated {
			t.Fatal(code, answer)
		}
		if code, answer := ask(t, plane, admin, "POST", pods,
			`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`); code != http.StatusCreated {
			t.Fatal(code, answer)
		}
		begin := time.Now()
		if code, answer := ask(t, plane, admin, "DELETE", pods+"/p?gracePeriodSeconds=0", ""); code != http.StatusOK {
			t.Fatal(code, answer)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("the deletion took %s of virtual time", took)
		}
	})
}

// A watch that is not read delays only one write, by some milliseconds.
func TestUnreadWatchDelaysNoWriter(t *testing.T) {
	const writes = 300
	s := onPort(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
	ann := s.browser(t, "ann", user.SystemPrivilegedGroup)
	n := 0
	write := func() time.Duration {
		n++
		begin := time.Now()
		body := fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, n)
		if code := s.code(t.Context(), ann, "POST", "/api/v1/namespaces/default/configmaps", "application/json",
			strings.NewReader(body)); code != http.StatusCreated {
			t.Fatal(code)
		}
		return time.Since(begin)
	}
	median := func() time.Duration {
		var times []time.Duration
		for range writes {
			times = append(times, write())
		}
		slices.Sort(times)
		return times[writes/2]
	}
	alone := median()
	u := s.unread(t, "bob", user.SystemPrivilegedGroup)
	u.get(5, "/api/v1/configmaps?watch=1")
	watched := median()
	t.Logf("median of a create: %s alone, %s with watches that are not read", alone, watched)
	if watched > alone+4*time.Millisecond {
		t.Errorf("a create takes %s instead of %s", watched, alone)
	}
}

// BenchmarkWatchedCreates measures the cost of a create in a watched resource, of server and
// clients together.
func BenchmarkWatchedCreates(b *testing.B) {
	for _, watches := range []int{0, 1, 5, 100} {
		b.Run(fmt.Sprint(watches), func(b *testing.B) {
			s := onPort(b, controlplane.Config{Controllers: controlplane.NoControllers{}})
			c := s.converse(b, "ann", user.SystemPrivilegedGroup)
			ctx, cancel := context.WithCancel(context.Background())
			var readers sync.WaitGroup
			defer func() { cancel(); readers.Wait() }()
			for range watches {
				client := s.browser(b, "ann", user.SystemPrivilegedGroup)
				req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/api/v1/configmaps?watch=1", nil)
				require.NoError(b, err)
				resp, err := client.Do(req)
				require.NoError(b, err)
				readers.Go(func() { _, _ = io.Copy(io.Discard, resp.Body); resp.Body.Close() })
			}
			b.ReportAllocs()
			before := cpu()
			for n := 0; b.Loop(); n++ {
				c.read(c.send("POST", "/api/v1/namespaces/default/configmaps",
					fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, n)), true)
			}
			b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
