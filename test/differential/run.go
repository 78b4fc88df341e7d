package main

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"kelson.dev/test/admission/attributes"
)

// difference is a finding with the request that shows it.
type difference struct {
	finding
	round   string // the name of the seed
	stream  string
	label   string
	step    int
	request string
}

// runner sends streams to both sides.
type runner struct {
	peer, kelson *side
	count        int // requests sent to each side
	attributes   []attributes.Recorded
	mu           sync.Mutex
}

// stream sends the chosen steps of a stream to both sides and returns the differences; nil chooses
// all steps.
func (r *runner) stream(ctx context.Context, s *stream, own string, chosen map[int]bool) []difference {
	peer, kelson, c := newMemory(), newMemory(), newComparer(own)
	peer.hook, kelson.hook = r.peer.hook, r.kelson.hook
	var all []difference
	sent := 0
	for i, st := range s.steps(own) {
		if chosen != nil && !chosen[i] && !st.always || ctx.Err() != nil {
			continue
		}
		request := st.String(peer)
		var p, k *answer
		var both sync.WaitGroup
		both.Go(func() { p = r.peer.await(ctx, &st, peer) })
		both.Go(func() { k = r.kelson.await(ctx, &st, kelson) })
		both.Wait()
		for try := 0; st.soon && try < 20 && len(newComparer(own).answers(p, k)) > 0; try++ {
			time.Sleep(100 * time.Millisecond)
			p, k = r.peer.send(ctx, &st, peer), r.kelson.send(ctx, &st, kelson)
		}
		sent++
		found := c.answers(p, k)
		if st.unanswered {
			found = nil
		}
		if s.reviewed {
			found = append(found, r.reviews(c, &st, own, p)...)
		}
		for _, f := range found {
			f.peer, f.kelson = strings.ReplaceAll(f.peer, own, "OWN"), strings.ReplaceAll(f.kelson, own, "OWN")
			all = append(all, difference{finding: f, stream: s.name, label: st.label, step: i, request: request})
		}
		peerBody, kelsonBody := p.body, k.body
		if s.reacted != nil && st.method != http.MethodGet {
			peerBody, kelsonBody = r.peer.awaitReaction(ctx, s, p.body), r.kelson.awaitReaction(ctx, s, k.body)
		}
		if st.save != "" {
			peer.keep(st.save, peerBody)
			kelson.keep(st.save, kelsonBody)
			peer.tags[st.save], kelson.tags[st.save] = p.header.Get("Etag"), k.header.Get("Etag")
		}
	}
	r.mu.Lock()
	r.count += sent
	r.mu.Unlock()
	return all
}

// await sends a step, repeatedly until the state that it waits for is reached.
func (s *side) await(ctx context.Context, st *step, m *memory) *answer {
	a := s.send(ctx, st, m)
	for try := 0; try < 50; try++ {
		switch {
		case st.established && a.status == http.StatusOK && !definitionEstablished(a.body):
		case st.gone && a.status == http.StatusOK:
		case st.hooked && !s.hook.Reached():
		default:
			return a
		}
		time.Sleep(100 * time.Millisecond)
		a = s.send(ctx, st, m)
	}
	return a
}

// awaitReaction waits until the server has reacted to a write, and returns the object then. It
// returns body if that is not an object, or if the object does not exist.
func (s *side) awaitReaction(ctx context.Context, sent *stream, body any) any {
	name, ok := at(body, "metadata", "name").(string)
	if !ok {
		return body
	}
	get := step{method: http.MethodGet, path: sent.collection + "/" + name}
	// After several changes, flow control waits before it writes again. On a busy machine, it waits
	// for more than half a minute.
	for range 2400 {
		a := s.send(ctx, &get, newMemory())
		if a.status != http.StatusOK {
			return body
		}
		if sent.reacted(a.body) {
			return a.body
		}
		time.Sleep(50 * time.Millisecond)
	}
	return body
}

// flowControlSeen reports whether flow control has set the condition in a FlowSchema's status that
// tells whether its priority level exists.
func flowControlSeen(obj any) bool {
	conditions, _ := at(obj, "status", "conditions").([]any)
	return slices.ContainsFunc(conditions, func(c any) bool {
		message, _ := at(c, "message").(string)
		return at(c, "type") == "Dangling" && strings.HasPrefix(message, "This FlowSchema references")
	})
}

// definitionEstablished reports whether the names of a definition were accepted or refused.
func definitionEstablished(v any) bool {
	conditions, _ := at(v, "status", "conditions").([]any)
	var accepted, established any
	for _, c := range conditions {
		switch at(c, "type") {
		case "NamesAccepted":
			accepted = at(c, "status")
		case "Established":
			established = at(c, "status")
		}
	}
	return accepted == "False" || accepted == "True" && established == "True"
}

// sending is a stream of a seed, and the differences that were found when it was sent.
type sending struct {
	*stream
	round string
	found []difference
	took  time.Duration
}

func (r *runner) send(ctx context.Context, s *sending) {
	begin := time.Now()
	s.found = r.stream(ctx, s.stream, ownName(s.stream, s.round), nil)
	for i := range s.found {
		s.found[i].round = s.round
	}
	s.took = time.Since(begin)
}

// sendAll sends the streams, several at a time. It then sends the streams that must run alone, one
// at a time, because their objects may remain and change the responses to other streams.
func (r *runner) sendAll(ctx context.Context, all []*sending, parallel int) (found []difference) {
	next := make(chan *sending)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for s := range next {
				r.send(ctx, s)
			}
		})
	}
	// Streams that wait for reactions mostly wait, so they begin first.
	for _, waits := range []bool{true, false} {
		for _, s := range all {
			if !s.alone && (s.reacted != nil) == waits {
				next <- s
			}
		}
	}
	close(next)
	workers.Wait()
	for _, s := range all {
		if s.alone {
			r.send(ctx, s)
		}
		found = append(found, s.found...)
	}
	return found
}

// longest describes the streams that took the longest time.
func longest(all []*sending) string {
	sorted := slices.SortedStableFunc(slices.Values(all), func(a, b *sending) int {
		return cmp.Compare(b.took, a.took)
	})
	var b strings.Builder
	for i, s := range sorted[:min(len(sorted), 5)] {
		fmt.Fprintf(&b, "%s%s of %s %s", []string{"", ", "}[min(i, 1)], s.name, s.round, s.took.Round(time.Second))
	}
	return b.String()
}

var notName = regexp.MustCompile(`[^a-z0-9]+`)

// ownName returns the name of a stream's namespace and objects.
func ownName(s *stream, round string) string {
	name := notName.ReplaceAllString(strings.ToLower(s.name), "-")
	if len(name) > 32 { // the rest must still distinguish streams with the same ending
		h := fnv.New32a()
		h.Write([]byte(s.name))
		name = fmt.Sprintf("%08x-%s", h.Sum32(), strings.TrimLeft(name[len(name)-23:], "-"))
	}
	return strings.Trim(fmt.Sprintf("d-%s-%s", round, strings.Trim(name, "-")), "-")
}

// inNamespace creates the namespace of a stream.
func inNamespace(own string) step {
	return step{label: "setup", method: http.MethodPost, path: "/api/v1/namespaces", always: true,
		body: jsonBody(map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": own}})}
}
