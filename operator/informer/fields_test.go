package informer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest/apiserver"
)

const buoyCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"buoys.GROUP"},
"spec":{"group":"GROUP","scope":"Namespaced","names":{"plural":"buoys","singular":"buoy","kind":"Buoy","listKind":"BuoyList"},
"versions":[{"name":"v1","served":true,"storage":true,"selectableFields":[SELECTABLE],"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":PARTS}}}}]}}`

const buoyParts = `"always":{"type":"integer"},"count":{"type":"integer"},"on":{"type":"boolean"},"maybe":{"type":"boolean"},"few":{"type":"integer"},"name":{"type":"string"},"since":{"type":"string"}`

// BuoyPart is embedded in buoy, and also the type of a field.
type BuoyPart struct {
	Always int          `json:"always"`
	Count  int64        `json:"count,omitempty"`
	On     bool         `json:"on,omitempty"`
	Maybe  *bool        `json:"maybe,omitempty"`
	Few    *int32       `json:"few"`
	Name   string       `json:"name,omitempty"`
	Since  *metav1.Time `json:"since,omitempty"`
}

// buoy has all types of selectable fields.
type buoy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		BuoyPart `json:",inline"`
		Inner    BuoyPart  `json:"inner,omitzero"`
		Pointer  *BuoyPart `json:"pointer,omitempty"`
	} `json:"spec"`
}

type buoyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []buoy `json:"items"`
}

func (b *buoy) DeepCopyObject() runtime.Object     { return byJSON(b, &buoy{}) }
func (l *buoyList) DeepCopyObject() runtime.Object { return byJSON(l, &buoyList{}) }

func byJSON[T any](from, to T) T {
	data, _ := json.Marshal(from)
	_ = json.Unmarshal(data, to)
	return to
}

// ways are the ways to list objects of a kind. Each returns the names, and the objects in JSON.
type ways map[string]func(ctx context.Context, opts ...client.ListOption) (names, objs []string, err error)

func waysOf[T any, P client.Pointer[T]](t *testing.T, c client.Client, gvk schema.GroupVersionKind) ways {
	t.Helper()
	started := func(form informer.Form) client.Client {
		informers, err := informer.New(informer.Config{Client: c, Form: form})
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- informers.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			assert.NoError(t, <-ended)
		})
		return informers.Client()
	}
	all := ways{}
	full, compact := started(informer.Full), started(informer.Compact)
	for name, c := range map[string]client.Client{"live": c, "full": full, "compact": compact} {
		all[name+" typed"] = func(ctx context.Context, opts ...client.ListOption) (names, objs []string, err error) {
			return namesIn(client.List[T, P](ctx, c, opts...))
		}
		all[name+" unstructured"] = func(ctx context.Context, opts ...client.ListOption) (names, objs []string,
			err error) {
			return namesIn(client.List[unstructured.Unstructured](ctx, c, append(opts, client.OfKind(gvk))...))
		}
	}
	return all
}

func namesIn[P client.Object](found []P, err error) (names, objs []string, _ error) {
	slices.SortFunc(found, func(a, b P) int {
		return strings.Compare(client.KeyOf(a).String(), client.KeyOf(b).String())
	})
	for _, obj := range found {
		names = append(names, client.KeyOf(obj).String())
		data, _ := json.Marshal(obj)
		objs = append(objs, string(data))
	}
	return names, objs, err
}

// agree lists in all ways, and compares the results with the server's selection.
func (w ways) agree(t *testing.T, s fields.Selector, opts ...client.ListOption) (found int) {
	t.Helper()
	opts = append(opts, client.ListOptions{Fields: s})
	reference := w["live typed"]
	if reference == nil {
		reference = w["full unstructured"]
	}
	want, _, err := reference(t.Context(), opts...)
	if err != nil {
		t.Errorf("%s: %v", s, err)
		return 0
	}
	objs := map[string][]string{} // by type
	for name, list := range w {
		got, all, err := list(t.Context(), opts...)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s, %s: %v %v, want %v", name, s, got, err, want)
			continue
		}
		_, form, _ := strings.Cut(name, " ")
		if known, ok := objs[form]; ok && !slices.Equal(known, all) {
			t.Errorf("%s, %s: the objects are\n%v, elsewhere\n%v", name, s, all, known)
		}
		objs[form] = all
	}
	return len(want)
}

// A field selector selects the same in a cache of Go types, in one of unstructured objects, and on
// the server.
func TestFieldSelectorsOfCustomResources(t *testing.T) {
	cfg := apiserver.For(t)
	group := "buoy" + time.Now().Format("150405") + ".kelson.dev"
	gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Buoy"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(gvk, &buoy{})
	scheme.AddKnownTypeWithName(gvk.GroupVersion().WithKind("BuoyList"), &buoyList{})
	metav1.AddToGroupVersion(scheme, gvk.GroupVersion())
	c, err := client.New(client.Config{REST: cfg, Scheme: scheme})
	require.NoError(t, err)
	var labels []string // at most eight can be selected
	for _, path := range []string{"always", "count", "on", "maybe", "few", "name", "inner.count", "pointer.on"} {
		labels = append(labels, "spec."+path)
	}
	var selectable []string
	for _, l := range labels {
		selectable = append(selectable, `{"jsonPath":".`+l+`"}`)
	}
	spec := `{"type":"object","properties":{` + buoyParts + `,"inner":{"type":"object","properties":{` + buoyParts +
		`}},"pointer":{"type":"object","nullable":true,"properties":{` + buoyParts + `}}}}`
	crd := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal([]byte(strings.NewReplacer("GROUP", group, "SELECTABLE", strings.Join(selectable, ","),
		"PARTS", spec).Replace(buoyCRD)), &crd.Object))
	require.NoError(t, c.Create(t.Context(), crd))
	t.Cleanup(func() { _ = c.Delete(context.Background(), crd) })

	seed := randomtest.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	part := func() map[string]any {
		m := map[string]any{}
		for name, values := range map[string][]any{
			"always": {int64(0), int64(1)}, "count": {int64(0), int64(1)}, "on": {false, true}, "maybe": {false, true},
			"few": {int64(0), int64(1)}, "name": {"", "0", "false"},
			"since": {"2026-01-02T03:04:05Z", "2026-01-02T05:04:05+02:00"},
		} {
			if n := r.IntN(len(values) + 1); n < len(values) {
				m[name] = values[n]
			}
		}
		return m
	}
	for n := range 40 {
		spec := part()
		if r.IntN(2) == 0 {
			spec["inner"] = part()
		}
		if r.IntN(2) == 0 {
			spec["pointer"] = part()
		}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetGroupVersionKind(gvk)
		u.SetNamespace("default")
		u.SetName(fmt.Sprint("b", n))
		for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) { // until the kind is served
			err := c.Create(t.Context(), u)
			if err == nil {
				break
			}
			if time.Since(begin) > time.Minute {
				t.Fatal(err)
			}
		}
	}
	w := waysOf[buoy](t, c, gvk)
	found := 0
	values := []string{"", "0", "1", "false", "true", "x"}
	for _, label := range labels {
		for _, value := range values {
			found += w.agree(t, fields.OneTermEqualSelector(label, value))
			found += w.agree(t, fields.OneTermNotEqualSelector(label, value))
		}
	}
	for range 60 {
		var both []fields.Selector
		for range 2 + r.IntN(2) {
			label, value := labels[r.IntN(len(labels))], values[r.IntN(len(values))]
			if r.IntN(3) == 0 {
				both = append(both, fields.OneTermNotEqualSelector(label, value))
			} else {
				both = append(both, fields.OneTermEqualSelector(label, value))
			}
		}
		found += w.agree(t, fields.AndSelectors(both...), client.InNamespace("default"))
	}
	if found < 1000 {
		t.Errorf("only %d were found", found)
	}
	w.agree(t, fields.Nothing())
	w.agree(t, fields.Everything())

	// The server cannot select these fields; the caches must agree nevertheless.
	delete(w, "live unstructured")
	delete(w, "live typed")
	for _, label := range []string{"spec.inner.always", "spec.pointer.few", "spec.inner.on", "spec.pointer.maybe",
		"spec.since", "spec.inner.since", "metadata.generation", "spec.pointer.name"} {
		for _, value := range append(values, "2026-01-02T03:04:05Z", "2026-01-02T05:04:05+02:00") {
			w.agree(t, fields.OneTermEqualSelector(label, value))
			w.agree(t, fields.OneTermNotEqualSelector(label, value))
		}
	}
}

// The same for kinds of Kubernetes, where the server computes the fields of Go types.
func TestFieldSelectorsOfBuiltins(t *testing.T) {
	c, err := client.New(client.Config{REST: apiserver.For(t)})
	require.NoError(t, err)
	ctx := t.Context()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fields-"}}
	require.NoError(t, c.Create(ctx, ns))
	t.Cleanup(func() { _ = c.Delete(context.Background(), ns) })
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns.Name, Name: name} }
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "a", Image: "b"}}},
	}
	for n, spec := range []corev1.PodSpec{{}, {HostNetwork: true}, {NodeName: ns.Name},
		{RestartPolicy: corev1.RestartPolicyNever, SchedulerName: "other"}} {
		spec.Containers = template.Spec.Containers
		spec.TerminationGracePeriodSeconds = new(int64)
		p := &corev1.Pod{ObjectMeta: in(fmt.Sprint("p", n)), Spec: spec}
		// until there is a service account
		for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			err := c.Create(ctx, p.DeepCopy())
			if err == nil {
				break
			}
			if time.Since(begin) > time.Minute {
				t.Fatal(err)
			}
		}
	}
	require.NoError(t, c.Subresource("status").Patch(ctx, &corev1.Pod{ObjectMeta: in("p1")},
		client.RawPatch(types.MergePatchType,
			[]byte(`{"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"nominatedNodeName":"n"}}`))))
	pausing := true
	for _, obj := range []client.Object{
		&batchv1.Job{ObjectMeta: in("j"), Spec: batchv1.JobSpec{Suspend: &pausing, Template: template}},
		&corev1.Secret{ObjectMeta: in("s"), Type: "example.com/x"}, &corev1.Secret{ObjectMeta: in("o")},
		&corev1.Service{ObjectMeta: in("s"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}},
			ClusterIP: "None"}},
		&corev1.Service{ObjectMeta: in("e"), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName,
			ExternalName: "example.com"}},
		&corev1.Event{ObjectMeta: in("a"), InvolvedObject: corev1.ObjectReference{Namespace: ns.Name, Kind: "Pod"},
			Source: corev1.EventSource{Component: "me"}, Type: "Normal"},
		&corev1.Event{ObjectMeta: in("b"), InvolvedObject: corev1.ObjectReference{Namespace: ns.Name, Kind: "Pod"},
			Reason: "R", ReportingController: "you", ReportingInstance: "i", Action: "A", EventTime: metav1.NowMicro(),
			Type: "Warning"},
		&corev1.ReplicationController{ObjectMeta: in("r"),
			Spec: corev1.ReplicationControllerSpec{Replicas: new(int32), Selector: map[string]string{"a": "b"},
				Template: func() *corev1.PodTemplateSpec {
					c := template.DeepCopy()
					c.Spec.RestartPolicy = corev1.RestartPolicyAlways
					return c
				}()}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}},
		// with the taint that a controller would add while the test compares
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns.Name + "-x"},
			Spec: corev1.NodeSpec{Unschedulable: true,
				Taints: []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}}},
	} {
		require.NoErrorf(t, c.Create(ctx, obj), "%T", obj)
		t.Cleanup(func() { _ = c.Delete(context.Background(), obj) })
	}
	gv := func(kind string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(kind) }
	for kind, tt := range map[string]struct {
		ways   ways
		labels []string
	}{
		"Pod": {waysOf[corev1.Pod](t, c, gv("Pod")),
			[]string{"spec.nodeName", "spec.host", "spec.restartPolicy", "spec.schedulerName",
				"spec.serviceAccountName", "spec.hostNetwork",
				"status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"}},
		"Node": {waysOf[corev1.Node](t, c, gv("Node")),
			[]string{"spec.unschedulable", "metadata.name"}},
		"Job": {waysOf[batchv1.Job](t, c, batchv1.SchemeGroupVersion.WithKind("Job")),
			[]string{"status.successful"}},
		"Secret":  {waysOf[corev1.Secret](t, c, gv("Secret")), []string{"type"}},
		"Service": {waysOf[corev1.Service](t, c, gv("Service")), []string{"spec.type", "spec.clusterIP"}},
		"Event": {waysOf[corev1.Event](t, c, gv("Event")),
			[]string{"source", "type", "reason", "reportingComponent", "involvedObject.kind", "involvedObject.name"}},
		"ReplicationController": {waysOf[corev1.ReplicationController](t, c, gv("ReplicationController")),
			[]string{"status.replicas"}},
		"Namespace": {waysOf[corev1.Namespace](t, c, gv("Namespace")), []string{"status.phase"}},
	} {
		t.Run(kind, func(t *testing.T) {
			var opts []client.ListOption
			if kind != "Node" && kind != "Namespace" {
				opts = append(opts, client.InNamespace(ns.Name))
			}
			found := 0
			for _, label := range tt.labels {
				for _, value := range []string{"", "0", "1", "false", "true", ns.Name, "Running", "Active", "10.0.0.1",
					"n", "other", "Never", "Always", "example.com/x", "Opaque", "None",
					"ExternalName", "me", "you", "Normal", "Warning", "R", "Pod"} {
					found += tt.ways.agree(t, fields.OneTermEqualSelector(label, value), opts...)
					found += tt.ways.agree(t, fields.OneTermNotEqualSelector(label, value), opts...)
				}
			}
			if found == 0 {
				t.Error("nothing was found")
			}
		})
	}
}
