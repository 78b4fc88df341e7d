package diagnosis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
)

// Cluster gives access to a cluster.
type Cluster struct {
	// Client reads objects; required.
	Client client.Reader
	// Logs returns the last lines of a container's log; of its previous run if previous is true.
	// nil: findings have no logs.
	Logs func(ctx context.Context, pod client.Key, container string, previous bool) ([]string, error)
	// Now returns the time; time.Now if nil.
	Now func() time.Time
}

// Severity orders findings.
type Severity int

// Severities, the worst first.
const (
	Broken  Severity = iota // it does not work, and somebody must act
	Waiting                 // it waits for something that may still happen
	Note                    // a fact that explains the state, which may be intended
)

func (s Severity) String() string { return [...]string{"broken", "waiting", "note"}[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Ref names an object.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Finding is a fact about the state of an object.
type Finding struct {
	Severity Severity `json:"level"`
	// Object is the subject of the finding: the object itself, or one that it owns or refers to.
	// Objects is how many objects have it, of which Object is one.
	Object  Ref `json:"object"`
	Objects int `json:"objects"`
	// Text says what is wrong, in one line.
	Text string `json:"text"`
	// Details are further lines, such as the end of a log.
	Details []string `json:"details,omitempty"`
	// Source is where the fact is: "status.conditions", "Event", "log".
	Source string `json:"source"`
	// Next says what would have to happen; may be empty.
	Next string `json:"next,omitempty"`
	// Since is when it began; zero if unknown.
	Since time.Time `json:"since,omitzero"`
}

// diagnosing is one call of Of.
type diagnosing struct {
	Cluster
	ctx      context.Context
	depth    int
	findings []Finding
	denied   map[string]bool               // kinds that can't be read
	pods     map[string][]*corev1.Pod      // by namespace; see podsIn
	warnings map[types.UID][]*corev1.Event // of an object; see warningsOf
}

// maxDepth bounds how far owned objects are followed: a Deployment's pods are two levels below it.
const maxDepth = 4

// Of returns the findings about an object, the best first; none if it is as it should be. An error
// means that the cluster could not be read.
func Of(ctx context.Context, cluster Cluster, obj *unstructured.Unstructured) ([]Finding, error) {
	if cluster.Now == nil {
		cluster.Now = time.Now
	}
	d := &diagnosing{Cluster: cluster, ctx: ctx, denied: map[string]bool{}, pods: map[string][]*corev1.Pod{},
		warnings: map[types.UID][]*corev1.Event{}}
	if err := d.object(obj); err != nil {
		return nil, err
	}
	for kind := range d.denied {
		d.add(Finding{Severity: Note, Object: refOf(obj), Text: "you may not read " + kind +
			": their part of the answer is missing", Source: "authorization"})
	}
	all := group(d.findings)
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
	return all, nil
}

// object adds the findings of one object.
func (d *diagnosing) object(obj *unstructured.Unstructured) error {
	if err := d.deletion(obj); err != nil {
		return err
	}
	rule, known := rules[obj.GroupVersionKind().GroupKind()]
	if known {
		if err := rule(d, obj); err != nil {
			return err
		}
	} else if err := d.custom(obj); err != nil {
		return err
	}
	return d.events(obj)
}

func (d *diagnosing) add(f Finding) {
	f.Objects = max(f.Objects, 1)
	d.findings = append(d.findings, f)
}

// has reports whether there is a finding that group will combine with f.
func (d *diagnosing) has(f Finding) bool {
	return slices.ContainsFunc(d.findings, func(g Finding) bool {
		return g.Object.Kind == f.Object.Kind && g.Text == f.Text
	})
}

// group combines findings with equal texts about objects of one kind, and drops repetitions of a
// fact: the message of an Event that a condition has, too.
func group(all []Finding) []Finding {
	type key struct{ kind, text string }
	first := map[key]int{}
	var grouped []Finding
	for _, f := range all {
		k := key{f.Object.Kind, f.Text}
		if i, ok := first[k]; ok {
			if grouped[i].Object != f.Object {
				grouped[i].Objects += f.Objects
			}
			continue
		}
		if f.Source == eventSource && slices.ContainsFunc(grouped, func(g Finding) bool {
			return g.Source != eventSource && (sameFact(g, f) || crashed(g, f))
		}) {
			continue
		}
		first[k] = len(grouped)
		grouped = append(grouped, f)
	}
	return grouped
}

// crashed reports whether an Event says only that a container is restarted, and a finding says how
// one of such a container ended.
func crashed(g, event Finding) bool {
	return strings.HasPrefix(event.Text, "BackOff: Back-off restarting failed container") && g.Severity == Broken &&
		g.Object.Kind == event.Object.Kind && strings.HasPrefix(g.Source, "status.containerStatuses")
}

// sameFact reports whether an Event's message is in a finding.
func sameFact(g, event Finding) bool {
	_, message, _ := strings.Cut(event.Text, ": ")
	message = strings.TrimSuffix(message, ".")
	return message != "" && (strings.Contains(g.Text, message) ||
		strings.Contains(message, strings.TrimSuffix(g.Text, ".")))
}

func refOf(obj client.Object) Ref {
	return Ref{obj.GetObjectKind().GroupVersionKind().Kind, obj.GetNamespace(), obj.GetName()}
}

// convert decodes an unstructured object to a type of Kubernetes.
func convert[T any](obj *unstructured.Unstructured) (*T, error) {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
		return nil, fmt.Errorf("%s: %w", refOf(obj), err)
	}
	return into, nil
}

// get reads an object. found is false if it does not exist, or may not be read: then known is
// false, too.
func get[T any, P client.Pointer[T]](d *diagnosing, namespace, name string) (obj P, found, known bool, err error) {
	obj, err = client.Get[T, P](d.ctx, d.Client, client.Key{Namespace: namespace, Name: name})
	switch {
	case err == nil:
		return obj, true, true, nil
	case apierrors.IsNotFound(err):
		return nil, false, true, nil
	case d.unreadable(err):
		return nil, false, false, nil
	}
	return nil, false, false, err
}

// list reads the objects of a kind in a namespace; none if they may not be read.
func list[T any, P client.Pointer[T]](d *diagnosing, opts ...client.ListOption) ([]P, error) {
	all, err := client.List[T, P](d.ctx, d.Client, opts...)
	if err != nil && d.unreadable(err) {
		return nil, nil
	}
	return all, err
}

// unreadable reports whether an error means that the user may not read a kind, or that the cluster
// does not have it.
func (d *diagnosing) unreadable(err error) bool {
	if apierrors.IsForbidden(err) {
		var status apierrors.APIStatus
		kind := "objects"
		if errors.As(err, &status) && status.Status().Details != nil {
			kind = status.Status().Details.Kind
		}
		d.denied[kind] = true
		return true
	}
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
}

// sentence joins a reason and a message.
func sentence(reason, message string) string {
	message = strings.TrimSpace(message)
	if reason == "" || strings.Contains(message, reason) {
		return message
	}
	if message == "" {
		return reason
	}
	return reason + ": " + message
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
