package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

// patience is how long states may last that are normally short.
const patience = 10 * time.Second

// rules are the rules of kinds, besides those for all kinds.
var rules map[schema.GroupKind]func(*diagnosing, *unstructured.Unstructured) error

func init() { // the rules call each other through object
	rules = map[schema.GroupKind]func(*diagnosing, *unstructured.Unstructured) error{
		{Kind: "Pod"}:                                                     (*diagnosing).pod,
		{Group: "apps", Kind: "Deployment"}:                               (*diagnosing).deployment,
		{Group: "apps", Kind: "ReplicaSet"}:                               (*diagnosing).replicaSet,
		{Group: "apps", Kind: "StatefulSet"}:                              (*diagnosing).statefulSet,
		{Group: "apps", Kind: "DaemonSet"}:                                (*diagnosing).daemonSet,
		{Group: "batch", Kind: "Job"}:                                     (*diagnosing).job,
		{Group: "batch", Kind: "CronJob"}:                                 (*diagnosing).cronJob,
		{Kind: "PersistentVolumeClaim"}:                                   (*diagnosing).claim,
		{Kind: "PersistentVolume"}:                                        (*diagnosing).volume,
		{Kind: "Service"}:                                                 (*diagnosing).service,
		{Kind: "Namespace"}:                                               (*diagnosing).namespace,
		{Kind: "Node"}:                                                    (*diagnosing).node,
		{Kind: "ResourceQuota"}:                                           (*diagnosing).quota,
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:           (*diagnosing).autoscaler,
		{Group: "policy", Kind: "PodDisruptionBudget"}:                    (*diagnosing).budget,
		{Group: "networking.k8s.io", Kind: "Ingress"}:                     (*diagnosing).ingress,
		{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: (*diagnosing).signingRequest,
	}
}

// deletion explains why an object that is being deleted still exists.
func (d *diagnosing) deletion(obj *unstructured.Unstructured) error {
	at := obj.GetDeletionTimestamp()
	if at == nil || obj.GetKind() == "Namespace" { // namespaces have a finalizer in their spec
		return nil
	}
	finalizers := obj.GetFinalizers()
	if len(finalizers) == 0 {
		return nil // a pod ends within its grace period: see pod
	}
	f := Finding{Severity: Waiting, Object: refOf(obj), Source: "metadata.finalizers", Since: at.Time,
		Text: "is being deleted; waits for the finalizers " + strings.Join(finalizers, ", ")}
	if len(finalizers) == 1 {
		f.Text = "is being deleted; waits for the finalizer " + finalizers[0]
	}
	switch {
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		f.Next = "the garbage collector must delete the dependents that block the deletion"
	case slices.Contains(finalizers, "kubernetes.io/pvc-protection"):
		f.Next = "no pod may use the claim any longer"
	default:
		f.Next = "the controller that added the finalizer must remove it; if that no longer runs, its cleanup is up to you"
	}
	if d.Now().Sub(at.Time) > patience {
		f.Severity = Broken
	}
	d.add(f)
	return nil
}

const eventSource = "Event"

// recentEvent is how old an Event may be.
const recentEvent = time.Hour

// maxEvents is how many Events about one object become findings.
const maxEvents = 3

// warningsOf returns the recent warnings about an object, the newest first. It reads them once.
func (d *diagnosing) warningsOf(obj *unstructured.Unstructured) ([]*corev1.Event, error) {
	uid := obj.GetUID()
	if all, ok := d.warnings[uid]; ok || uid == "" {
		return all, nil
	}
	namespace := obj.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	all, err := list[corev1.Event](d, client.InNamespace(namespace),
		client.ListOptions{Fields: fields.OneTermEqualSelector("involvedObject.uid", string(uid))})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e *corev1.Event) bool {
		return e.Type != corev1.EventTypeWarning || d.Now().Sub(eventTime(e)) > recentEvent
	})
	slices.SortStableFunc(all, func(a, b *corev1.Event) int { return eventTime(b).Compare(eventTime(a)) })
	d.warnings[uid] = all
	return all, nil
}

// events adds the newest warnings about an object.
func (d *diagnosing) events(obj *unstructured.Unstructured) error {
	all, err := d.warningsOf(obj)
	if err != nil {
		return err
	}
	for _, e := range all[:min(len(all), maxEvents)] {
		f := Finding{Severity: Waiting, Object: refOf(obj), Source: eventSource, Since: eventTime(e), Text: sentence(e.Reason, e.Message)}
		if e.Count > 1 {
			f.Details = []string{fmt.Sprintf("%d times, from %s", e.Count, e.Source.Component)}
		}
		d.add(f)
	}
	return nil
}

func eventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// custom explains an object of a kind without rules, such as a custom resource, from the
// conventions for conditions, and from the objects that it owns.
func (d *diagnosing) custom(obj *unstructured.Unstructured) error {
	status, has, _ := unstructured.NestedMap(obj.Object, "status")
	if has {
		d.conditions(obj)
		observed, _, _ := unstructured.NestedInt64(status, "observedGeneration")
		if observed > 0 && observed < obj.GetGeneration() {
			d.behind(obj, observed)
		}
	}
	before := len(d.findings)
	if err := d.owned(obj); err != nil {
		return err
	}
	if _, hasSpec := obj.Object["spec"]; !has && hasSpec && len(d.findings) == before && d.Now().Sub(obj.GetCreationTimestamp().Time) > patience {
		f := Finding{Severity: Waiting, Object: refOf(obj), Source: "metadata.managedFields", Since: obj.GetCreationTimestamp().Time,
			Text: "has no status: no controller has reported on it", Next: "the controller of this kind must run, and may watch and update it"}
		if managers := managersOf(obj); len(managers) > 0 {
			f.Details = []string{"written only by " + strings.Join(managers, ", ")}
		}
		d.add(f)
	}
	return nil
}

func managersOf(obj *unstructured.Unstructured) []string {
	var names []string
	for _, m := range obj.GetManagedFields() {
		if !slices.Contains(names, m.Manager) {
			names = append(names, m.Manager)
		}
	}
	return names
}

// behind reports a controller that has not seen the newest spec.
func (d *diagnosing) behind(obj *unstructured.Unstructured, observed int64) {
	d.add(Finding{Severity: Waiting, Object: refOf(obj), Source: "status.observedGeneration",
		Text: fmt.Sprintf("its controller has seen generation %d of %d", observed, obj.GetGeneration()),
		Next: "the controller must run and reconcile the object"})
}

// condition is a condition of any kind.
type condition struct {
	kind, status, reason, message string
	since                         time.Time
}

func conditionsOf(obj *unstructured.Unstructured) []condition {
	items, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	var all []condition
	for _, item := range items {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(name string) string { s, _ := m[name].(string); return s }
		since, _ := time.Parse(time.RFC3339, text("lastTransitionTime"))
		all = append(all, condition{text("type"), text("status"), text("reason"), text("message"), since})
	}
	return all
}

// positive are types of conditions that are True if all is well. negative are parts of the names of
// conditions that are True if something is wrong.
var (
	positive = []string{
		"Ready", "Available", "Established", "NamesAccepted", "Synced", "Healthy", "Accepted", "Programmed", "ResolvedRefs", "Valid", "Reconciled", "Installed",
		"Resolved", "Applied", "Deployed", "Succeeded", "Complete",
	}
	negative = []string{"Fail", "Degraded", "Stalled", "Pressure", "Unavailable", "Error", "Dangling", "Violat", "NonStructural", "Conflict"}
)

// conditions adds the conditions that report a problem, by the conventions of the API: the summary
// conditions Ready and Available come last, because they often repeat another one.
func (d *diagnosing) conditions(obj *unstructured.Unstructured) {
	var last []Finding
	for _, c := range conditionsOf(obj) {
		bad := slices.Contains(positive, c.kind) && c.status != "True"
		if slices.ContainsFunc(negative, func(part string) bool { return strings.Contains(c.kind, part) }) {
			bad = c.status == "True"
		}
		if !bad {
			continue
		}
		f := Finding{Severity: Broken, Object: refOf(obj), Source: "status.conditions", Since: c.since,
			Text: strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", c.kind, c.status, sentence(c.reason, c.message)), ": ")}
		if c.status == "Unknown" || !c.since.IsZero() && d.Now().Sub(c.since) < patience {
			f.Severity = Waiting
		}
		if c.kind == "Ready" || c.kind == "Available" {
			last = append(last, f)
			continue
		}
		d.add(f)
	}
	for _, f := range last {
		d.add(f)
	}
}
