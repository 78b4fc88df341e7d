// Package sample has the parts that both sides of the operator benchmarks share: a custom resource,
// Pods, and the output of figures.
package sample

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/test/child"
)

// Group of the custom resource.
var (
	GroupVersion = schema.GroupVersion{Group: "bench.kelson.dev", Version: "v1"}
	Kind         = GroupVersion.WithKind("Sample")
	Resource     = GroupVersion.WithResource("samples")
)

// Sample is the custom resource.
type Sample struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec,omitempty"`
	Status            Status `json:"status,omitempty"`
}

// Spec of a Sample.
type Spec struct {
	Message string            `json:"message,omitempty"`
	Options map[string]string `json:"options,omitempty"`
	Steps   []Step            `json:"steps,omitempty"`
}

// Step of a Spec.
type Step struct {
	Name    string   `json:"name"`
	Command []string `json:"command,omitempty"`
	Retries int32    `json:"retries,omitempty"`
}

// Status of a Sample.
type Status struct {
	Child string `json:"child,omitempty"`
	Ready bool   `json:"ready,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (s *Sample) DeepCopyObject() k8sruntime.Object {
	c := *s
	s.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	if s.Spec.Options != nil {
		c.Spec.Options = make(map[string]string, len(s.Spec.Options))
		for k, v := range s.Spec.Options {
			c.Spec.Options[k] = v
		}
	}
	if s.Spec.Steps != nil {
		c.Spec.Steps = make([]Step, len(s.Spec.Steps))
		for n, step := range s.Spec.Steps {
			step.Command = append([]string(nil), step.Command...)
			c.Spec.Steps[n] = step
		}
	}
	return &c
}

// SampleList is a list of Samples.
type SampleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Sample `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *SampleList) DeepCopyObject() k8sruntime.Object {
	c := *l
	c.Items = make([]Sample, len(l.Items))
	for n := range l.Items {
		c.Items[n] = *l.Items[n].DeepCopyObject().(*Sample)
	}
	return &c
}

// AddToScheme adds the types to a scheme.
func AddToScheme(s *k8sruntime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Sample{}, &SampleList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Definition returns the CustomResourceDefinition.
func Definition() *unstructured.Unstructured {
	text := map[string]any{"type": "string"}
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "samples." + GroupVersion.Group},
		"spec": map[string]any{
			"group": GroupVersion.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": "samples", "singular": "sample", "kind": "Sample",
				"listKind": "SampleList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": object(map[string]any{
					"spec": object(map[string]any{
						"message": text,
						"options": map[string]any{"type": "object", "additionalProperties": text},
						"steps": map[string]any{"type": "array", "items": object(map[string]any{
							"name": text, "command": map[string]any{"type": "array", "items": text},
							"retries": map[string]any{"type": "integer", "format": "int32"},
						})},
					}),
					"status": object(map[string]any{"child": text, "ready": map[string]any{"type": "boolean"}}),
				})},
			}},
		},
	}}
}

// NewSample returns the n-th Sample: about 2.3 KB in the server, with managedFields.
func NewSample(namespace string, n int) *Sample {
	s := &Sample{}
	s.SetGroupVersionKind(Kind)
	s.Namespace, s.Name = namespace, fmt.Sprintf("sample-%05d", n)
	s.Labels = map[string]string{
		"app.kubernetes.io/name": "sample", "app.kubernetes.io/instance": s.Name,
		"app.kubernetes.io/managed-by": "bench",
		"team":                         fmt.Sprint("team-", n%20),
	}
	s.Annotations = map[string]string{"bench.kelson.dev/owner": fmt.Sprintf("user-%d@example.com", n%100)}
	s.Spec.Message = fmt.Sprintf("%x %s", n*2654435761, "the message of a sample of the benchmark")
	s.Spec.Options = map[string]string{}
	for o := range 8 {
		s.Spec.Options[fmt.Sprint("option-", o)] = fmt.Sprintf("value-%d-%x", o, n*(o+40503))
	}
	for step := range 5 {
		s.Spec.Steps = append(s.Spec.Steps, Step{
			Name: fmt.Sprint("step-", step), Retries: int32(n % 5),
			Command: []string{"/usr/bin/run", "--target", fmt.Sprintf("target-%d", n+step), "--verbose"},
		})
	}
	return s
}

// NewPod returns the n-th Pod: about 6.2 KB in the server.
func NewPod(namespace string, n int) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	p.Namespace, p.Name = namespace, fmt.Sprintf("pod-%05d", n)
	p.Labels = map[string]string{"app": fmt.Sprint("app-", n%50),
		"pod-template-hash": fmt.Sprintf("%x", n/50*2654435761), "tier": "backend"}
	p.Annotations = map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
		"checksum/config": fmt.Sprintf("%064x", n*40503)}
	quantity := func(s string) resource.Quantity { return resource.MustParse(s) }
	for c, name := range []string{"main", "sidecar"} {
		container := corev1.Container{
			Name: name, Image: fmt.Sprintf("registry.example.com/team-%d/%s:v1.%d.0", n%20, name, n%30),
			Args: []string{"--listen", fmt.Sprint(":", 8080+c), "--log-level=info", fmt.Sprintf("--shard=%d", n)},
			Ports: []corev1.ContainerPort{{Name: fmt.Sprint("http-", c), ContainerPort: int32(8080 + c),
				Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": quantity("100m"), "memory": quantity("128Mi")},
				Limits:   corev1.ResourceList{"cpu": quantity("500m"), "memory": quantity("512Mi")},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config", ReadOnly: true},
				{Name: "data", MountPath: "/data"}},
		}
		for e := range 6 {
			container.Env = append(container.Env,
				corev1.EnvVar{Name: fmt.Sprint("SETTING_", e),
					Value: fmt.Sprintf("value of the setting %d of %s", e, name)})
		}
		probe := func(path string) *corev1.Probe {
			p := &corev1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 10}
			p.HTTPGet = &corev1.HTTPGetAction{Path: path}
			p.HTTPGet.Port.StrVal, p.HTTPGet.Port.Type = fmt.Sprint("http-", c), 1
			return p
		}
		container.LivenessProbe, container.ReadinessProbe = probe("/healthz"), probe("/readyz")
		p.Spec.Containers = append(p.Spec.Containers, container)
	}
	p.Spec.Volumes = []corev1.Volume{{Name: "config"}, {Name: "data"}}
	p.Spec.Volumes[0].ConfigMap = &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}
	p.Spec.Volumes[1].EmptyDir = &corev1.EmptyDirVolumeSource{}
	return p
}

// NewChild returns the ConfigMap that belongs to a Sample.
func NewChild(s *Sample) *corev1.ConfigMap {
	child := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	child.Namespace, child.Name = s.Namespace, s.Name
	child.Labels = map[string]string{"sample": s.Name}
	child.Data = map[string]string{"message": s.Spec.Message, "steps": fmt.Sprint(len(s.Spec.Steps))}
	return child
}

// Config returns the configuration of a client without rate limits.
func Config(kubeconfig string) (*rest.Config, error) {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	c.QPS, c.Burst = -1, -1
	c.WarningHandler = rest.NoWarnings{}
	return c, nil
}

// Figures are the results of a task on one side.
type Figures struct {
	Seconds    float64 // of the task
	CPU        float64 // seconds of this process
	Heap       float64 // live bytes per object
	Peak       float64 // maximum resident bytes
	RSS        float64 // resident bytes at the end
	Allocated  float64 // total bytes allocated on the heap
	Reconciles float64
	Conflicts  float64
	Lost       float64 // events
	Rate       map[string]float64
}

// Print adds the figures that every process has, and prints all.
func (f Figures) Print() {
	f.CPU = CPU()
	u, err := child.UsageOf(os.Getpid())
	if err != nil {
		panic(err)
	}
	f.Peak, f.RSS = float64(u.Peak), float64(u.Resident)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.Allocated = float64(m.TotalAlloc)
	_ = json.NewEncoder(os.Stdout).Encode(f)
}

// Ready prints that the task may start.
func Ready() { fmt.Println("ready") }

// CPU returns the seconds of CPU time that this process has used.
func CPU() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// Heap returns the live bytes on the heap.
func Heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
