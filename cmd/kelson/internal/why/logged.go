package why

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"kelson.dev/lab/causes"
)

// readLog reads an audit log; - is standard input.
func readLog(name string) (*causes.Log, error) {
	var in io.Reader = os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return causes.ReadAuditLog(in)
}

// explanation returns why an object is in its state, from the traces and, if it is not nil, the
// log.
func explanation(t *causes.Trace, log *causes.Log, o causes.Object, last int) causes.Explanation {
	x := t.Explain(o, last)
	if log == nil {
		return x
	}
	logged, earlier := log.Explain(o, last)
	if len(logged) == 0 {
		return x
	}
	// The log also contains the writes that the traces describe.
	x.Writes = slices.DeleteFunc(x.Writes, func(s causes.Step) bool {
		return slices.ContainsFunc(logged, func(l *causes.LoggedStep) bool {
			return l.ResourceVersion != "" && l.ResourceVersion == s.Write.ResourceVersion
		})
	})
	x.Logged, x.Earlier = logged, earlier
	return x
}

// find returns the objects in the traces and in the log, which may be nil.
func find(t *causes.Trace, log *causes.Log, kind, namespace, name string) []causes.Object {
	all := t.Find(kind, namespace, name)
	if log != nil {
		all = append(all, log.Find(kind, namespace, name)...)
	}
	slices.SortFunc(all, func(a, b causes.Object) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// logged prints the probable causes of a write in an audit log.
func (p printer) logged(s *causes.LoggedStep, depth int) {
	switch {
	case s.Exact != nil:
		p.because(s.Exact.By, depth)
	case s.Repeated:
		p.line(depth, "(causes are shown above)")
	case s.Cut:
		p.line(depth, "…")
	case s.Probably != nil:
		c := s.Probably.Cause
		p.line(depth, "%s %s was %s by %s, %s earlier", p.Faint("probably"), "because "+c.Object().String(),
			loggedDeed(c), writer(c), short(s.Probably.Earlier.Duration))
		evidence := strings.Join(s.Probably.Evidence, "; ")
		if n := s.Probably.Others; n == 1 {
			evidence += "; another write fits less well"
		} else if n > 1 {
			evidence += fmt.Sprintf("; %d other writes fit less well", n)
		}
		p.line(depth+1, "%s", p.Faint("evidence: "+evidence))
		p.logged(c, depth+1)
	case s.First != "":
		p.line(depth, "first cause: %s", s.First)
	default:
		p.line(depth, "cause unknown: no related object that it watches was written in the previous minute")
	}
}

// writer returns the program or user that made a write.
func writer(s *causes.LoggedStep) string {
	if s.Exact != nil {
		return who(s.Exact.By)
	}
	return s.By.String()
}

// loggedDeed returns a text that describes a write.
func loggedDeed(s *causes.LoggedStep) string {
	if s.Exact != nil {
		return deed(&s.Exact.Write)
	}
	w := s.LoggedWrite
	text := cmp.Or(deeds[w.Verb], w.Verb)
	switch w.Subresource {
	case "":
		return text
	case "binding":
		return "bound to a node"
	case "eviction":
		return "evicted"
	}
	return text + " in its " + w.Subresource
}

// short rounds a duration for people.
func short(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}

var errNoTrace = errors.New("no cluster and no trace found: set KUBECONFIG to the kubeconfig of a cluster, or pass --trace or --audit-log")
