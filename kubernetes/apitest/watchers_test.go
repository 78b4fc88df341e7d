package apitest_test

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
)

// Ten thousand watches over HTTP receive the same bytes: all events in order.
func TestManyWatches(t *testing.T) {
	watches, writes := 10_000, 40
	if testing.Short() {
		watches = 500
	}
	p := apitest.New(t)
	seed := maphash.MakeSeed()
	first := p.Want(t, 201, "POST", maps, configMap("first", ""))
	from := apitest.At(first, "metadata", "resourceVersion").(string)
	sums := make([]uint64, watches)
	var reading sync.WaitGroup
	var one []byte // the bytes of the first watch
	for i := range watches {
		resp := p.Do(t, "GET", maps+"?watch=1&resourceVersion="+from, "")
		reading.Go(func() {
			defer resp.Body.Close()
			var hash maphash.Hash
			hash.SetSeed(seed)
			buf := make([]byte, 4096)
			for seen := 0; seen < writes; {
				n, err := resp.Body.Read(buf)
				if err != nil {
					t.Errorf("watch %d ended after %d events: %v", i, seen, err)
					return
				}
				hash.Write(buf[:n])
				seen += bytes.Count(buf[:n], []byte("\n"))
				if i == 0 {
					one = append(one, buf[:n]...)
				}
			}
			sums[i] = hash.Sum64()
		})
	}
	var writing sync.WaitGroup
	for w := range 4 {
		writing.Go(func() {
			name := fmt.Sprint("m", w)
			p.Want(t, 201, "POST", maps, configMap(name, ""))
			for n := range writes/4 - 2 {
				p.Want(t, 200, "PATCH", maps+"/"+name, fmt.Sprintf(`{"data":{"n":"%d"}}`, n), mergePatch)
			}
			p.Want(t, 200, "DELETE", maps+"/"+name, "")
		})
	}
	writing.Wait()
	reading.Wait()
	for i, sum := range sums {
		require.Equalf(t, sum, sums[0], "watch %d received bytes that differ from those of the first", i)
	}
	last, _ := strconv.Atoi(from)
	for line := range bytes.Lines(one) {
		_, rest, _ := strings.Cut(string(line), `"resourceVersion":"`)
		text, _, _ := strings.Cut(rest, `"`)
		revision, err := strconv.Atoi(text)
		if err != nil || revision != last+1 {
			t.Fatalf("revision %s after %d", text, last)
		}
		last = revision
	}
	if last != int(p.Store.Snapshot().Revision()) {
		t.Errorf("the last event has revision %d, want %d", last, p.Store.Snapshot().Revision())
	}
}

// A client that does not read gets the events that fit into the connection, and then either the
// following events or 410: no event is skipped.
func TestSlowWatch(t *testing.T) {
	p := apitest.New(t)
	large := strings.Repeat("x", 8<<10)
	created := p.Want(t, 201, "POST", maps, `{"metadata":{"name":"a"}}`)
	from, _ := strconv.Atoi(apitest.At(created, "metadata", "resourceVersion").(string))
	slow := p.Watch(t, maps+"?watch=1&allowWatchBookmarks=true&resourceVersion="+strconv.Itoa(from))
	brisk := p.Watch(t, maps+"?watch=1&resourceVersion="+strconv.Itoa(from))
	const writes = 3 * apitest.Retain
	for n := range writes {
		p.Want(t, 200, "PATCH", maps+"/a", fmt.Sprintf(`{"data":{"n":"%d","large":%q}}`, n, large), mergePatch)
		brisk.Expect(t, "MODIFIED a")
	}
	last := from
	for {
		typ, obj, ok := slow.Next(t)
		if !ok {
			t.Fatalf("the watch ended after %d without an error event", last)
		}
		if typ == "ERROR" {
			if obj["code"] != 410.0 || obj["reason"] != "Expired" || last == from+writes {
				t.Errorf("after %d: %v", last, obj)
			}
			break
		}
		if revision, _ := strconv.Atoi(apitest.At(obj, "metadata", "resourceVersion").(string)); revision != last+1 {
			t.Fatalf("%s of revision %d after %d", typ, revision, last)
		}
		last++
	}
	if last == from {
		t.Error("the slow watch received no event")
	}
	if _, _, ok := slow.Next(t); ok {
		t.Error("an event follows the error")
	}
}
