// Package why implements kelson why. It reads the traces that operators record (operator/trace) and
// explains why an object is in its state: which reconciles wrote it, what caused them, and what
// caused that, across controllers and operators.
//
//	Pod default/example-at
//
//	15:04:05.415  created by controller at (reconcile 2 of At default/example-at, 3.1ms)
//	  because At default/example-at was patched in its status by controller at (reconcile 1 of At default/example-at, 1.2ms)
//	    because At default/example-at was created by kubectl-create
package why

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"kelson.dev/operator/trace"
)

// Trace holds the reconciles of several operators. It is immutable after Read.
type Trace struct {
	records []*trace.LineRecord // by time
	byID    map[reconcile]*trace.LineRecord
	writers map[state]*writer
}

// reconcile identifies a record.
type reconcile struct {
	run string
	id  uint64
}

// state is an object at the resource version of a write.
type state struct {
	object          Object
	resourceVersion string
}

type writer struct {
	record *trace.LineRecord
	write  *trace.LineWrite
}

// Object names an object of a trace.
type Object struct{ Cluster, Kind, Namespace, Name string }

func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	if o.Cluster != "" {
		name = o.Cluster + ":" + name
	}
	return o.Kind + " " + name
}

// Read reads traces, which consist of lines of JSON. It ignores an incomplete last line, which the
// operator is still writing.
func Read(from ...io.Reader) (*Trace, error) {
	a := &Trace{byID: map[reconcile]*trace.LineRecord{}, writers: map[state]*writer{}}
	for _, r := range from {
		lines := bufio.NewReader(r)
		for n := 1; ; n++ {
			line, err := lines.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read trace: %w", err)
			}
			record := &trace.LineRecord{}
			if err := json.Unmarshal(line, record); err != nil {
				return nil, fmt.Errorf("read trace: line %d: %w", n, err)
			}
			a.add(record)
		}
	}
	slices.SortStableFunc(a.records, func(x, y *trace.LineRecord) int { return x.Time.Compare(y.Time) })
	return a, nil
}

func (t *Trace) add(r *trace.LineRecord) {
	t.records = append(t.records, r)
	t.byID[reconcile{r.Run, r.ID}] = r
	for i := range r.Writes {
		w := &r.Writes[i]
		if w.Changed && w.Error == "" && w.ResourceVersion != "" {
			t.writers[state{written(w), w.ResourceVersion}] = &writer{r, w}
		}
	}
}

func written(w *trace.LineWrite) Object { return Object{w.Cluster, w.Kind, w.Namespace, w.Name} }
func reconciled(r *trace.LineRecord) Object {
	return Object{r.Cluster, r.Kind, r.Namespace, r.Name}
}
func caused(c *trace.LineCause) Object { return Object{c.Cluster, c.Kind, c.Namespace, c.Name} }

// Find returns the objects of the trace with the kind and name, sorted. Like kubectl, it accepts
// the kind in any case, as a plural, or followed by a dot and the group. An empty namespace matches
// all.
func (t *Trace) Find(kind, namespace, name string) []Object {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	found := map[Object]bool{}
	consider := func(o Object) {
		is := strings.ToLower(o.Kind)
		same := kind == is || kind == is+"s" || kind == is+"es" || strings.HasSuffix(is, "y") && kind == strings.TrimSuffix(is, "y")+"ies"
		if same && o.Name == name && (namespace == "" || o.Namespace == namespace) {
			found[o] = true
		}
	}
	for _, r := range t.records {
		consider(reconciled(r))
		for i := range r.Causes {
			consider(caused(&r.Causes[i]))
		}
		for i := range r.Writes {
			consider(written(&r.Writes[i]))
		}
	}
	var all []Object
	for o := range found {
		all = append(all, o)
	}
	slices.SortFunc(all, func(x, y Object) int { return strings.Compare(x.String(), y.String()) })
	return all
}
