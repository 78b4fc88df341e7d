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

// UnexpectedJob is the reason of warnings about Jobs of a CronJob that users create themselves, as
// kubectl create job --from=cronjob/NAME does. They are not problems.
const UnexpectedJob = "UnexpectedJob"

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
		return e.Type != corev1.EventTypeWarning || e.Reason == UnexpectedJob || d.Now().Sub(eventTime(e)) > recentEvent
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
		f := Finding{Severity: Waiting, Object: refOf(obj), Source: eventSource, Since: eventTime(e),
			Text: sentence(e.Reason, e.Message)}
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
	if _, hasSpec := obj.Object["spec"]; !has && hasSpec && len(d.findings) == before &&
		d.Now().Sub(obj.GetCreationTimestamp().Time) > patience {
		f := Finding{Severity: Waiting, Object: refOf(obj), Source: "metadata.managedFields",
			Since: obj.GetCreationTimestamp().Time,
			Text:  "has no status: no controller has reported on it",
			Next:  "the controller of this kind must run, and may watch and update it"}
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
