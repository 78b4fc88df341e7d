// Package account writes a live, readable account of what happens on a control plane: objects that come, change and go, Events,
// reconciles with their causes and results, and the output of containers.
//
//	0.412s  at/example-at         created by kubectl-create
//	0.415s  at/example-at         ⟳ at reconciled (created) in 1.2ms: created pod/example-at
//	0.431s  pod/example-at        Pending → Running
//	0.433s  pod/example-at        │ hello
//	0.433s  at/example-at         ✉ Started: Started pod example-at
//
// An [Account] is safe for concurrent use; each thing is one line.
package account

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

// Account writes lines to one writer.
type Account struct {
	begin time.Time
	kinds *resource.Registry

	mu  sync.Mutex
	out io.Writer
}

// New returns an account whose clock begins now. kinds may be nil.
func New(out io.Writer, kinds *resource.Registry) *Account {
	return &Account{begin: time.Now(), kinds: kinds, out: out}
}

// Printf writes one line about a subject.
func (a *Account) Printf(subject, format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintf(a.out, "%8.3fs  %-28s  %s\n", time.Since(a.begin).Seconds(), subject, text)
}

// Output returns a writer each of whose lines is told as printed by a subject; closing it tells an unfinished one.
func (a *Account) Output(subject string) io.WriteCloser {
	return &lines{each: func(line string) { a.Printf(subject, "│ %s", line) }}
}

// quiet are kinds whose every change would drown the rest.
var quiet = map[string]bool{"leases.coordination.k8s.io": true, "nodes": true, "namespaces": true, "services": true}

// Event tells of a write.
func (a *Account) Event(e *store.Event) {
	obj := e.Object
	switch {
	case obj.Key.Resource == "events":
		if e.Type != store.Deleted {
			a.kubernetesEvent(obj)
		}
		return
	case quiet[obj.Key.Resource]:
		return
	}
	subject := a.subject(obj)
	switch e.Type {
	case store.Added:
		a.Printf(subject, "created%s", phaseOf(obj, " (", ")"))
	case store.Deleted:
		a.Printf(subject, "deleted")
	case store.Modified:
		before, now := phaseOf(e.Prev, "", ""), phaseOf(obj, "", "")
		switch {
		case e.Prev.Head.DeletionTimestamp.IsZero() && !obj.Head.DeletionTimestamp.IsZero():
			a.Printf(subject, "is being deleted")
		case before != now:
			a.Printf(subject, "%s → %s", or(before, "(no phase)"), or(now, "(no phase)"))
		case e.Prev.Head.Generation != obj.Head.Generation:
			a.Printf(subject, "changed (generation %d)", obj.Head.Generation)
		}
	}
}

// phaseOf is the object's status.phase with something around it, or nothing.
func phaseOf(obj *store.Object, before, after string) string {
	var o struct{ Status struct{ Phase string } }
	if json.Unmarshal(obj.Data, &o) != nil || o.Status.Phase == "" {
		return ""
	}
	return before + o.Status.Phase + after
}

func (a *Account) kubernetesEvent(obj *store.Object) {
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
	a.Printf(strings.ToLower(e.InvolvedObject.Kind)+"/"+e.InvolvedObject.Name, "%s %s: %s%s", mark, e.Reason, e.Message, times)
}

// Reconcile tells of a reconcile.
func (a *Account) Reconcile(r trace.LineRecord) {
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
	a.Printf(subject, "⟳ %s reconciled (%s) in %s: %s", r.Controller, or(strings.Join(causes, ", "), "no cause known"), duration, strings.Join(done, ", "))
}

var eventWords = map[string]string{
	trace.Add: "created", trace.Update: "updated", trace.Delete: "deleted", trace.Sync: "was there at the start",
	trace.Resync: "resync", trace.Retry: "retry", trace.After: "its time came", trace.Other: "outside event",
}

func cause(c trace.LineCause, r trace.LineRecord) string {
	word := or(eventWords[c.Event], c.Event)
	if c.Kind == "" || c.Kind == r.Kind && c.Name == r.Name {
		return word
	}
	return strings.ToLower(c.Kind) + "/" + c.Name + " " + word
}

var verbWords = map[string]string{
	"create": "created", "update": "updated", "patch": "patched", "apply": "applied", "delete": "deleted", "deletecollection": "deleted all",
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

// subject names an object as kubectl does.
func (a *Account) subject(obj *store.Object) string {
	name := obj.Key.Resource
	if a.kinds == nil {
		return name + "/" + obj.Key.Name
	}
	if res, ok := a.kinds.Current().ByPrefix(obj.Key.Resource); ok {
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

// lines splits what is written into lines.
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
