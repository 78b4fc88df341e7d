// Package devlog writes a readable log of what happens on a control plane: changes of objects,
// Events, reconciles with their causes and results, and the output of containers.
//
//	0.412s  at/example-at         created by kubectl-create
//	0.415s  at/example-at         ⟳ at reconciled (created) in 1.2ms: created pod/example-at
//	0.431s  pod/example-at        Pending → Running
//	0.433s  pod/example-at        │ hello
//	0.433s  at/example-at         ✉ Started: Started pod example-at
//
// A [Log] is safe for concurrent use and writes one line per entry. It counts entries that repeat
// too often, instead of writing them.
package devlog

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/operator/trace"
)

// Log writes lines to one writer.
type Log struct {
	begin time.Time
	kinds *resource.Registry

	mu    sync.Mutex
	out   io.Writer
	equal map[string]*repeats // by subject and text without numbers, in the current window
}

// New returns a log whose clock starts now. kinds provides the singular names of resources; it may
// be nil.
func New(out io.Writer, kinds *resource.Registry) *Log {
	return &Log{begin: time.Now(), kinds: kinds, out: out, equal: map[string]*repeats{}}
}

// Printf writes one entry about a subject.
func (l *Log) Printf(subject, format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.fold(subject, text) {
		l.write(subject, text)
	}
}

// write writes one line. The caller holds l.mu.
func (l *Log) write(subject, text string) {
	fmt.Fprintf(l.out, "%8.3fs  %-28s  %s\n", time.Since(l.begin).Seconds(), subject, text)
}

// still is the time after which Working logs again that the work continues.
const still = 10 * time.Second

// Working logs that work about a subject begins, and then at intervals that it continues, until
// stop is called.
func (l *Log) Working(subject, what string) (stop func()) {
	begin, done, ended := time.Now(), make(chan struct{}), make(chan struct{})
	l.Printf(subject, "%s", what)
	go func() {
		defer close(ended)
		ticker := time.NewTicker(still)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-ticker.C:
				l.Printf(subject, "%s %s", what, now.Sub(begin).Round(time.Second))
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// Output returns a writer that logs each line as output of subject. Close logs an unfinished last
// line.
func (l *Log) Output(subject string) io.WriteCloser {
	return &lines{each: func(line string) { l.Printf(subject, "│ %s", line) }}
}

// quiet lists resources that change too often to be logged.
var quiet = map[string]bool{"leases.coordination.k8s.io": true, "nodes": true, "namespaces": true, "services": true}

// Event logs a change of an object.
func (l *Log) Event(e *store.Event) {
	obj := e.Object
	switch {
	case obj.Key.Resource == "events":
		if e.Type != store.Deleted {
			l.kubernetesEvent(obj)
		}
		return
	case quiet[obj.Key.Resource]:
		return
	}
	subject := l.subject(obj)
	switch e.Type {
	case store.Added:
		l.Printf(subject, "created%s", phaseOf(obj, " (", ")"))
	case store.Deleted:
		l.Printf(subject, "deleted")
	case store.Modified:
		before, now := phaseOf(e.Prev, "", ""), phaseOf(obj, "", "")
		switch {
		case e.Prev.Head.DeletionTimestamp.IsZero() && !obj.Head.DeletionTimestamp.IsZero():
			l.Printf(subject, "is being deleted")
		case before != now:
			l.Printf(subject, "%s → %s", or(before, "(no phase)"), or(now, "(no phase)"))
		case e.Prev.Head.Generation != obj.Head.Generation:
			l.Printf(subject, "changed (generation %d)", obj.Head.Generation)
		}
	}
}

// phaseOf returns the object's status.phase between before and after, or "" if it has none.
func phaseOf(obj *store.Object, before, after string) string {
	var o struct{ Status struct{ Phase string } }
	if json.Unmarshal(obj.Data, &o) != nil || o.Status.Phase == "" {
		return ""
	}
	return before + o.Status.Phase + after
}

func (l *Log) kubernetesEvent(obj *store.Object) {
	var e struct {
		Type, Reason, Message string
		InvolvedObject        struct{ Kind, Name string }
		Count                 int
	}
	if json.Unmarshal(obj.Data, &e) != nil {
		return
	}
	mark := "✉"
	if e.Type == "Warning" {
		mark = "⚠"
	}
	times := ""
	if e.Count > 1 {
		times = fmt.Sprintf(" (%d times)", e.Count)
	}
	l.Printf(strings.ToLower(e.InvolvedObject.Kind)+"/"+e.InvolvedObject.Name, "%s %s: %s%s", mark, e.Reason, e.Message,
		times)
}

// Reconcile logs a reconcile with its causes and results.
func (l *Log) Reconcile(r trace.LineRecord) {
	subject := strings.ToLower(r.Kind) + "/" + r.Name
	var causes []string
	for _, c := range r.Causes {
		causes = append(causes, cause(c, r))
	}
	if r.MoreCauses > 0 {
		causes = append(causes, fmt.Sprintf("%d more", r.MoreCauses))
	}
	var done []string
	for _, w := range r.Writes {
		if text := write(w); text != "" {
			done = append(done, text)
		}
	}
	if r.RequeueAfter != "" {
		done = append(done, "again after "+r.RequeueAfter)
	}
	if r.Error != "" {
		done = append(done, "error: "+r.Error)
	}
	if len(done) == 0 {
		done = append(done, "nothing to do")
	}
	duration := r.Duration
	if d, err := time.ParseDuration(duration); err == nil {
		duration = d.Round(10 * time.Microsecond).String()
	}
	l.Printf(subject, "⟳ %s reconciled (%s) in %s: %s", r.Controller, or(strings.Join(causes, ", "), "no cause known"),
		duration, strings.Join(done, ", "))
}

var eventWords = map[string]string{
	trace.Add: "created", trace.Update: "updated", trace.Delete: "deleted", trace.Sync: "existed at the start",
	trace.Resync: "resync", trace.Retry: "retry", trace.After: "requeue time reached", trace.Other: "external event",
}

func cause(c trace.LineCause, r trace.LineRecord) string {
	word := or(eventWords[c.Event], c.Event)
	if c.Kind == "" || c.Kind == r.Kind && c.Name == r.Name {
		return word
	}
	return strings.ToLower(c.Kind) + "/" + c.Name + " " + word
}

var verbWords = map[string]string{
	"create": "created", "update": "updated", "patch": "patched", "apply": "applied", "delete": "deleted",
	"deletecollection": "deleted all",
}

func write(w trace.LineWrite) string {
	if !w.Changed && w.Error == "" {
		return ""
	}
	what := strings.ToLower(w.Kind) + "/" + w.Name
	if w.Subresource != "" {
		what = w.Subresource + " of " + what
	}
	if w.Error != "" {
		return fmt.Sprintf("%s %s failed: %s", w.Verb, what, w.Error)
	}
	return or(verbWords[w.Verb], w.Verb) + " " + what
}

// subject returns the name of an object as kubectl prints it.
func (l *Log) subject(obj *store.Object) string {
	name := obj.Key.Resource
	if l.kinds == nil {
		return name + "/" + obj.Key.Name
	}
	if res, ok := l.kinds.Current().ByPrefix(obj.Key.Resource); ok {
		name = res.Singular
	}
	return name + "/" + obj.Key.Name
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// lines calls each for every line that is written to it.
type lines struct {
	mu   sync.Mutex
	part []byte
	each func(string)
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, p...)
	for {
		line, rest, ok := strings.Cut(string(l.part), "\n")
		if !ok {
			return len(p), nil
		}
		l.each(strings.TrimSuffix(line, "\r"))
		l.part = []byte(rest)
	}
}

func (l *lines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.each(string(l.part))
		l.part = nil
	}
	return nil
}
