// Package causes reads the accounts that operators keep (operator/trace) and tells why an object is as it is: which reconciles wrote it,
// what caused them, and what caused that, across controllers and across operators.
//
//	Pod default/example-at
//
//	15:04:05.415  created by controller at (reconcile 2 of At default/example-at, 3.1ms)
//	  because At default/example-at was patched in its status by controller at (reconcile 1 of At default/example-at, 1.2ms)
//	    because At default/example-at was created by kubectl-create
package causes

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

// Account is what several operators did.
type Account struct {
	records []*trace.LineRecord // in order of time
	byID    map[reconcile]*trace.LineRecord
	writers map[state]*writer
}

// reconcile identifies a record.
type reconcile struct {
	run string
	id  uint64
}

// state is an object as somebody wrote it.
type state struct {
	object          Object
	resourceVersion string
}

type writer struct {
	record *trace.LineRecord
	write  *trace.LineWrite
}

// Object names an object of an account.
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

// Read reads accounts, each lines of JSON. A last line that is cut off is left out: the operator is writing it.
func Read(from ...io.Reader) (*Account, error) {
	a := &Account{byID: map[reconcile]*trace.LineRecord{}, writers: map[state]*writer{}}
	for _, r := range from {
		lines := bufio.NewReader(r)
		for n := 1; ; n++ {
			line, err := lines.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read account: %w", err)
			}
			record := &trace.LineRecord{}
			if err := json.Unmarshal(line, record); err != nil {
				return nil, fmt.Errorf("read account: line %d: %w", n, err)
			}
			a.add(record)
		}
	}
	slices.SortStableFunc(a.records, func(x, y *trace.LineRecord) int { return x.Time.Compare(y.Time) })
	return a, nil
}

func (a *Account) add(r *trace.LineRecord) {
	a.records = append(a.records, r)
	a.byID[reconcile{r.Run, r.ID}] = r
	for i := range r.Writes {
		w := &r.Writes[i]
		if w.Changed && w.Error == "" && w.ResourceVersion != "" {
			a.writers[state{written(w), w.ResourceVersion}] = &writer{r, w}
		}
	}
}

func written(w *trace.LineWrite) Object { return Object{w.Cluster, w.Kind, w.Namespace, w.Name} }
func reconciled(r *trace.LineRecord) Object {
	return Object{r.Cluster, r.Kind, r.Namespace, r.Name}
}
func caused(c *trace.LineCause) Object { return Object{c.Cluster, c.Kind, c.Namespace, c.Name} }

// Find gives the objects of the account that kind and name mean. The kind is as kubectl takes it: in any case, plural, or with its group
// behind a dot. Without a namespace, that of any will do.
func (a *Account) Find(kind, namespace, name string) []Object {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	found := map[Object]bool{}
	consider := func(o Object) {
		is := strings.ToLower(o.Kind)
		same := kind == is || kind == is+"s" || kind == is+"es" || strings.HasSuffix(is, "y") && kind == strings.TrimSuffix(is, "y")+"ies"
		if same && o.Name == name && (namespace == "" || o.Namespace == namespace) {
			found[o] = true
		}
	}
	for _, r := range a.records {
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
