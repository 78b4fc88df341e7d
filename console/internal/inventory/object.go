package inventory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/lab/diagnosis"
)

// Object is the summary of an object.
type Object struct {
	Resource   string                `json:"resource"` // as cluster.Kind.Name
	Kind       string                `json:"kind"`
	Namespace  string                `json:"namespace,omitempty"`
	Name       string                `json:"name"`
	UID        string                `json:"uid"`
	Created    time.Time             `json:"created"`
	Deleted    *time.Time            `json:"deleted,omitempty"` // deletionTimestamp
	Finalizers []string              `json:"finalizers,omitempty"`
	Owners     []Owner               `json:"owners,omitempty"`
	Labels     map[string]string     `json:"-"`
	Selector   map[string]string     `json:"-"` // of pods
	References []Reference           `json:"references,omitempty"`
	Generation int64                 `json:"-"`
	Observed   int64                 `json:"-"` // status.observedGeneration; 0 if absent
	Phase      string                `json:"phase,omitempty"`
	Conditions []diagnosis.Condition `json:"-"`
	Containers []Container           `json:"-"` // those that wait or failed
	// Written is the time of the last write of a field manager, and Writer the name of that
	// manager.
	Written time.Time `json:"-"`
	Writer  string    `json:"-"`
	// Wanted and ready replicas; -1 if the object has no such fields.
	Replicas, Ready int64 `json:"-"`
}

func (o *Object) key() string { return o.Namespace + "/" + o.Name }

// Owner is an owner reference.
type Owner struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller,omitempty"`
}

// Reference names another object by a field.
type Reference struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Container is a container of a pod that waits, or ended with an error.
type Container struct {
	Name     string
	Text     string // what the status says, with the name
	Restarts int
	// Ended means that a run has ended: its log may say why. Previous means that the container
	// starts again, so this was its previous run.
	Ended, Previous bool
}

// Event is a Kubernetes Event that warns.
type Event struct {
	UID                   string
	Time                  time.Time
	Type, Reason, Message string
	Kind, Namespace, Name string
	Count                 int
}

type container struct {
	Name  string
	State struct {
		Waiting    *struct{ Reason, Message string }
		Terminated *ended
	}
	LastState    struct{ Terminated *ended }
	RestartCount int
	EnvFrom      []struct {
		ConfigMapRef, SecretRef *struct{ Name string }
	}
}

// ended says how a container ended.
type ended struct {
	Reason, Message  string
	ExitCode, Signal int
}

func (e *ended) String() string {
	text := fmt.Sprintf("exit code %d", e.ExitCode)
	if e.Signal != 0 {
		text = fmt.Sprintf("signal %d", e.Signal)
	}
	if e.Reason != "" && e.Reason != "Error" && e.Reason != "Completed" {
		text = e.Reason + ", " + text
	}
	lines := strings.Split(strings.TrimSpace(e.Message), "\n")
	return text + colon(lines[len(lines)-1]) // of a termination message, the end says why
}

type podSpec struct {
	NodeName           string
	ServiceAccountName string
	Volumes            []struct {
		ConfigMap             *struct{ Name string }
		Secret                *struct{ SecretName string }
		PersistentVolumeClaim *struct{ ClaimName string }
	}
	Containers []container
}

func summarize(kind cluster.Kind, data []byte) (*Object, error) {
	var o struct {
		Metadata metav1.ObjectMeta
		Spec     json.RawMessage
		Status   json.RawMessage
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	m := o.Metadata
	s := &Object{
		Resource: kind.Name(), Kind: kind.Kind, Namespace: m.Namespace, Name: m.Name, UID: string(m.UID),
		Created:    m.CreationTimestamp.UTC(),
		Finalizers: m.Finalizers, Labels: m.Labels, Generation: m.Generation, Replicas: -1, Ready: -1,
	}
	if m.DeletionTimestamp != nil {
		t := m.DeletionTimestamp.UTC()
		s.Deleted = &t
	}
	for _, f := range m.ManagedFields {
		if f.Time != nil && !f.Time.Time.Before(s.Written) {
			s.Written, s.Writer = f.Time.UTC(), unique.Make(f.Manager).Value()
		}
	}
	for _, owner := range m.OwnerReferences {
		s.Owners = append(s.Owners, Owner{owner.Kind, owner.Name, string(owner.UID),
			owner.Controller != nil && *owner.Controller})
	}
	s.readSpec(o.Spec)
	s.readStatus(o.Status)
	return s, nil
}

// readSpec reads fields that common kinds have in their spec. Other kinds may use the same names
// for other types, so it ignores errors, field by field.
func (o *Object) readSpec(data json.RawMessage) {
	fields := map[string]json.RawMessage{}
	if len(data) == 0 || json.Unmarshal(data, &fields) != nil {
		return
	}
	if o.Resource == "services" {
		_ = json.Unmarshal(fields["selector"], &o.Selector)
	}
	if o.Resource == "namespaces" {
		var finalizers []string
		_ = json.Unmarshal(fields["finalizers"], &finalizers)
		o.Finalizers = append(finalizers, o.Finalizers...)
	}
	if replicas := int64(0); json.Unmarshal(fields["replicas"], &replicas) == nil {
		o.Replicas = replicas
	}
	var pod podSpec
	switch o.Resource {
	case "pods":
		_ = json.Unmarshal(data, &pod)
	case "deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch":
		return // the pods of such kinds have the references
	case "horizontalpodautoscalers.autoscaling":
		var target Reference
		if json.Unmarshal(fields["scaleTargetRef"], &target) == nil {
			o.refer(target.Kind, target.Name)
		}
	case "persistentvolumeclaims":
		var volume string
		if json.Unmarshal(fields["volumeName"], &volume) == nil {
			o.refer("PersistentVolume", volume)
		}
	}
	if pod.ServiceAccountName != "default" {
		o.refer("ServiceAccount", pod.ServiceAccountName)
	}
	for _, v := range pod.Volumes {
		if v.ConfigMap != nil && v.ConfigMap.Name != "kube-root-ca.crt" {
			o.refer("ConfigMap", v.ConfigMap.Name)
		}
		if v.Secret != nil {
			o.refer("Secret", v.Secret.SecretName)
		}
		if v.PersistentVolumeClaim != nil {
			o.refer("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName)
		}
	}
	for _, c := range pod.Containers {
		for _, from := range c.EnvFrom {
			if from.ConfigMapRef != nil {
				o.refer("ConfigMap", from.ConfigMapRef.Name)
			}
			if from.SecretRef != nil {
				o.refer("Secret", from.SecretRef.Name)
			}
		}
	}
}

func (o *Object) refer(kind, name string) {
	r := Reference{kind, name}
	if name != "" && !slices.Contains(o.References, r) {
		o.References = append(o.References, r)
	}
}

func (o *Object) readStatus(data json.RawMessage) {
	fields := map[string]json.RawMessage{}
	if len(data) == 0 || json.Unmarshal(data, &fields) != nil {
		return
	}
	_ = json.Unmarshal(fields["phase"], &o.Phase)
	_ = json.Unmarshal(fields["observedGeneration"], &o.Observed)
	if o.Replicas >= 0 {
		ready := int64(0)
		_ = json.Unmarshal(fields["readyReplicas"], &ready)
		o.Ready = ready
	}
	var conditions []struct {
		Type, Status, Reason, Message string
		LastTransitionTime            time.Time
	}
	if json.Unmarshal(fields["conditions"], &conditions) == nil {
		for _, c := range conditions {
			o.Conditions = append(o.Conditions, diagnosis.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason,
				Message: c.Message, Since: c.LastTransitionTime})
		}
	}
	if o.Resource != "pods" {
		return
	}
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		var containers []container
		_ = json.Unmarshal(fields[field], &containers)
		for _, c := range containers {
			if found, ok := c.problem(); ok {
				o.Containers = append(o.Containers, found)
			}
		}
	}
}

// problem reports why a container does not run, if it should.
func (c container) problem() (found Container, ok bool) {
	found = Container{Name: c.Name, Restarts: c.RestartCount}
	waiting, ended := c.State.Waiting, c.State.Terminated
	switch {
	case waiting != nil && waiting.Reason == "CrashLoopBackOff" && c.LastState.Terminated != nil:
		found.Ended, found.Previous = true, true
		found.Text = fmt.Sprintf("%s crashes: %s, restarted %d times", c.Name, c.LastState.Terminated, c.RestartCount)
	case waiting != nil && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing":
		found.Text = c.Name + ": " + waiting.Reason + colon(waiting.Message)
	case ended != nil && ended.ExitCode != 0:
		found.Ended = true
		found.Text = c.Name + " ended: " + ended.String()
	}
	return found, found.Text != ""
}

func colon(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// maxEvents bounds the Events that are kept.
const maxEvents = 5000

// readEvent decodes an Event.
func readEvent(data []byte) (Event, error) {
	var e struct {
		Metadata       metav1.ObjectMeta
		Type, Reason   string
		Message        string
		Count          int
		LastTimestamp  metav1.Time
		EventTime      metav1.MicroTime
		InvolvedObject struct{ Kind, Namespace, Name string }
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return Event{}, err
	}
	when := e.LastTimestamp.Time
	if when.IsZero() {
		when = e.EventTime.Time
	}
	if when.IsZero() {
		when = e.Metadata.CreationTimestamp.Time
	}
	return Event{
		UID: string(e.Metadata.UID), Time: when.UTC(), Type: e.Type, Reason: e.Reason, Message: e.Message,
		Count: e.Count,
		Kind:  e.InvolvedObject.Kind, Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name,
	}, nil
}

// addEvents keeps Events. The caller holds the mutex. It removes the oldest ones only when there
// are twice as many as are kept, because finding them takes time.
func (v *Inventory) addEvents(added ...Event) {
	for _, e := range added {
		v.events[e.UID] = e
	}
	if len(v.events) > 2*maxEvents {
		v.trimEvents()
	}
}

// trimEvents removes the oldest Events beyond maxEvents. The caller holds the mutex.
func (v *Inventory) trimEvents() {
	excess := len(v.events) - maxEvents
	if excess <= 0 {
		return
	}
	all := slices.SortedFunc(maps.Values(v.events), func(a, b Event) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.UID, b.UID))
	})
	for _, e := range all[:excess] {
		delete(v.events, e.UID)
	}
}
