package adapter_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

const boatCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boats.GROUP"},
"spec":{"group":"GROUP","scope":"Namespaced","names":{"plural":"boats","singular":"boat","kind":"Boat","listKind":"BoatList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.sails","statusReplicasPath":".status.speed"}},"selectableFields":[{"jsonPath":".spec.sails"},{"jsonPath":".spec.fast"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"sails":{"type":"integer","maximum":5},"fast":{"type":"boolean"},"crew":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}}}}}},
"status":{"type":"object","properties":{"speed":{"type":"integer"},"log":{"type":"array","items":{"type":"string"}}}}}}}}]}}`

type boat struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Sails int    `json:"sails,omitempty"`
		Fast  *bool  `json:"fast,omitempty"`
		Crew  []crew `json:"crew,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		Speed int      `json:"speed,omitempty"`
		Log   []string `json:"log,omitempty"`
	} `json:"status,omitempty"`
}

type crew struct {
	Name string `json:"name,omitempty"`
	Age  int    `json:"age"`
}

type boatList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []boat `json:"items"`
}

func (b *boat) DeepCopyObject() runtime.Object     { return copied(b, &boat{}) }
func (l *boatList) DeepCopyObject() runtime.Object { return copied(l, &boatList{}) }

func copied[T any](from, to T) T {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		panic(err)
	}
	return to
}

var boatNames = []string{"a", "b", "c"}

// shape is a Go type for objects of a kind. Ingress and PodTemplate have no controllers, which
// would change them at unpredictable times. With their Go types, requests and responses are
// protobuf.
type shape struct {
	kind string
	form form
}

type form int

const (
	typed form = iota
	dynamic
	metadata
)

var shapes = []shape{
	{"ConfigMap", typed}, {"ConfigMap", dynamic}, {"ConfigMap", metadata},
	{"Boat", typed}, {"Boat", typed}, {"Boat", dynamic}, {"Boat", metadata},
	{"Ingress", typed}, {"Ingress", dynamic}, {"Ingress", metadata},
	{"PodTemplate", typed}, {"PodTemplate", dynamic},
}

// hasStatus reports whether the kind has the subresource status.
func (s shape) hasStatus() bool { return s.kind == "Boat" || s.kind == "Ingress" }

func (w *twins) kindOf(s shape) schema.GroupVersionKind {
	switch s.kind {
	case "Boat":
		return w.boats
	case "Ingress":
		return networkingv1.SchemeGroupVersion.WithKind(s.kind)
	}
	return corev1.SchemeGroupVersion.WithKind(s.kind)
}

func (w *twins) object(s shape, ns, name string) client.Object {
	var obj client.Object
	switch {
	case s.form == metadata:
		obj = &metav1.PartialObjectMetadata{}
	case s.form == dynamic:
		obj = &unstructured.Unstructured{Object: map[string]any{}}
	case s.kind == "Boat":
		obj = &boat{}
	case s.kind == "Ingress":
		obj = &networkingv1.Ingress{}
	case s.kind == "PodTemplate":
		obj = &corev1.PodTemplate{}
	default:
		obj = &corev1.ConfigMap{}
	}
	if s.form != typed {
		obj.GetObjectKind().SetGroupVersionKind(w.kindOf(s))
	}
	obj.SetNamespace(ns)
	obj.SetName(name)
	return obj
}

func (w *twins) list(s shape) client.ObjectList {
	kind := w.kindOf(s)
	kind.Kind += "List"
	switch {
	case s.form == metadata:
		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(kind)
		return l
	case s.form == dynamic:
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(kind)
		return l
	case s.kind == "Boat":
		return &boatList{}
	case s.kind == "Ingress":
		return &networkingv1.IngressList{}
	case s.kind == "PodTemplate":
		return &corev1.PodTemplateList{}
	}
	return &corev1.ConfigMapList{}
}

// change makes a random change, which is the same for equal seeds.
func (w *twins) change(seed uint64, obj client.Object) {
	r := rand.New(rand.NewPCG(seed, 3))
	set := obj.GetLabels()
	if set == nil {
		set = map[string]string{}
	}
	for range r.IntN(3) {
		if key := pick(r, "color", "size"); r.IntN(4) == 0 {
			delete(set, key)
		} else {
			set[key] = pick(r, "red", "blue", "")
		}
	}
	obj.SetLabels(set)
	if r.IntN(5) == 0 {
		obj.SetFinalizers(nil)
	} else if r.IntN(8) == 0 {
		obj.SetFinalizers([]string{"kelson.dev/held"})
	}
	sails, fast := r.IntN(7), r.IntN(2) == 0 // the server rejects six
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		o.Data = map[string]string{pick(r, "k", "l"): pick(r, "1", "2", "")}
		if r.IntN(3) == 0 {
			o.BinaryData = map[string][]byte{"b": {0, 1, 255}}
		}
	case *boat:
		if o.Spec.Sails, o.Spec.Fast = sails, &fast; r.IntN(2) == 0 {
			o.Spec.Crew = append(o.Spec.Crew, crew{pick(r, "x", "y"), r.IntN(3)})
		}
		if r.IntN(2) == 0 {
			o.Status.Speed, o.Status.Log = r.IntN(4), append(o.Status.Log, pick(r, "p", "q"))
		}
	case *networkingv1.Ingress:
		changeIngress(r, o)
	case *corev1.PodTemplate:
		changeTemplate(r, o)
	case *unstructured.Unstructured:
		changeDynamic(r, o, sails, fast)
	}
}

func changeDynamic(r *rand.Rand, o *unstructured.Unstructured, sails int, fast bool) {
	switch o.GetKind() {
	case "ConfigMap":
		o.Object["data"] = map[string]any{pick(r, "k", "l"): pick(r, "1", "2", "")}
	case "Boat":
		o.Object["spec"] = map[string]any{"sails": int64(sails), "fast": fast,
			"crew": []any{map[string]any{"name": pick(r, "x", "y")}}}
		if r.IntN(3) == 0 {
			o.Object["spec"].(map[string]any)["unknown"] = "dropped"
		}
		if r.IntN(2) == 0 {
			o.Object["status"] = map[string]any{"speed": int64(r.IntN(4)), "log": []any{pick(r, "p", "q")}}
		}
	case "Ingress":
		i := &networkingv1.Ingress{}
		changeIngress(r, i)
		setMembers(o, i, "spec", "status")
	case "PodTemplate":
		t := &corev1.PodTemplate{}
		changeTemplate(r, t)
		setMembers(o, t, "template")
	}
}

// setMembers sets members of an object to those of a typed one.
func setMembers(o *unstructured.Unstructured, from runtime.Object, names ...string) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		o.Object[name] = content[name]
	}
}

func changeIngress(r *rand.Rand, o *networkingv1.Ingress) {
	backend := func() networkingv1.IngressBackend {
		port := networkingv1.ServiceBackendPort{Number: int32(r.IntN(3)) + 80}
		if r.IntN(3) == 0 {
			port = networkingv1.ServiceBackendPort{Name: "http"}
		}
		return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: pick(r, "s", "t"),
			Port: port}}
	}
	if r.IntN(2) == 0 || o.Spec.DefaultBackend == nil {
		b := backend()
		o.Spec.DefaultBackend = &b
	}
	switch r.IntN(4) {
	case 0:
		class := pick(r, "nginx", "Not a class")
		o.Spec.IngressClassName = &class
	case 1:
		path := pick(r, networkingv1.PathTypePrefix, networkingv1.PathTypeExact)
		o.Spec.Rules = append(o.Spec.Rules, networkingv1.IngressRule{Host: pick(r, "a.example.com", ""),
			IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &path, Backend: backend()}}}}})
	case 2:
		o.Spec.Rules, o.Spec.TLS = nil, []networkingv1.IngressTLS{{Hosts: []string{pick(r, "a", "b")}}}
	}
	if r.IntN(2) == 0 {
		o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress,
			networkingv1.IngressLoadBalancerIngress{IP: pick(r, "10.0.0.1", "10.0.0.2", "nowhere")})
	}
}

func changeTemplate(r *rand.Rand, o *corev1.PodTemplate) {
	spec := &o.Template.Spec
	container := func(name string) corev1.Container {
		c := corev1.Container{Name: name, Image: pick(r, "i", "j")}
		for _, env := range []string{"E", "F"} {
			if r.IntN(2) == 0 {
				c.Env = append(c.Env, corev1.EnvVar{Name: env, Value: pick(r, "1", "2", "")})
			}
		}
		if r.IntN(3) == 0 {
			c.Ports = []corev1.ContainerPort{{ContainerPort: int32(r.IntN(2)) + 80}}
		}
		return c
	}
	spec.Containers = []corev1.Container{container("a")}
	if r.IntN(2) == 0 {
		// The server refuses two with the same name.
		spec.Containers = append(spec.Containers, container(pick(r, "b", "b", "a")))
	}
	if r.IntN(2) == 0 {
		spec.NodeSelector = map[string]string{pick(r, "zone", "disk"): pick(r, "1", "2")}
	}
	if r.IntN(3) == 0 {
		seconds := int64(r.IntN(3))
		spec.TerminationGracePeriodSeconds = &seconds
		spec.Tolerations = append(spec.Tolerations,
			corev1.Toleration{Key: pick(r, "x", "y"), Operator: corev1.TolerationOpExists})
	}
}

// document returns an object with a few fields, as it is applied.
func (w *twins) document(s shape, seed uint64, name string) map[string]any {
	r := rand.New(rand.NewPCG(seed, 4))
	kind := w.kindOf(s)
	doc := map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]any{"name": name}}
	switch s.kind {
	case "ConfigMap":
		doc["data"] = map[string]any{"k": fmt.Sprint(r.IntN(3))}
	case "Boat":
		doc["spec"] = map[string]any{"sails": int64(r.IntN(4))}
	case "Ingress":
		doc["spec"] = map[string]any{"defaultBackend": map[string]any{
			"service": map[string]any{"name": pick(r, "s", "t"), "port": map[string]any{"number": int64(80)}}}}
	case "PodTemplate":
		container := map[string]any{"name": pick(r, "a", "b"), "image": pick(r, "i", "j"),
			"env": []any{map[string]any{"name": "E", "value": "3"}}}
		doc["template"] = map[string]any{"spec": map[string]any{"containers": []any{container}}}
	}
	if r.IntN(3) == 0 {
		doc["metadata"].(map[string]any)["labels"] = map[string]any{"color": pick(r, "red", "blue")}
	}
	return doc
}

func pick[E any](r *rand.Rand, choices ...E) E { return choices[r.IntN(len(choices))] }
