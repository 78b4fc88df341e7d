package usage

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// Owner is the [resource.Resource.Owner] of the kinds of this package.
const Owner = "usage"

// Config configures the kinds of a control plane. Store and Node are required.
type Config struct {
	// Store holds the pods and nodes.
	Store *store.Store
	// Node reports whether the control plane itself runs the pods of a node. Other pods are
	// omitted: another server must measure them.
	Node func(name string) bool
	// Log receives invalid profiles; nil discards them.
	Log *slog.Logger
}

// Resources returns the kinds PodMetrics and NodeMetrics.
func Resources(cfg Config) []*resource.Resource {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	m := &meter{cfg: cfg, processes: &processes{}}
	return []*resource.Resource{
		kind[v1beta1.PodMetrics]("pods", "PodMetrics", true, m.pods),
		kind[v1beta1.NodeMetrics]("nodes", "NodeMetrics", false, m.nodes),
	}
}

// window is the interval of declared usages, the same as that of metrics-server.
const window = 15 * time.Second

// meter computes usages from the stored pods.
type meter struct {
	cfg       Config
	processes *processes
}

// pods returns the usage of running pods, sorted by namespace and name.
func (m *meter) pods(_ context.Context, namespace, name string) ([]runtime.Object, error) {
	var all []runtime.Object
	for _, u := range m.measure(m.cfg.Store.Snapshot(), namespace, name) {
		all = append(all, u.metrics())
	}
	return all, nil
}

// nodes returns the usage of nodes, sorted by name.
func (m *meter) nodes(_ context.Context, _, name string) ([]runtime.Object, error) {
	sn, now := m.cfg.Store.Snapshot(), time.Now()
	byName := map[string]*v1beta1.NodeMetrics{}
	for obj := range sn.Scan("nodes", "", store.Key{}) {
		if m.cfg.Node(obj.Key.Name) && (name == "" || name == obj.Key.Name) {
			byName[obj.Key.Name] = &v1beta1.NodeMetrics{
				ObjectMeta: metav1.ObjectMeta{Name: obj.Key.Name, Labels: obj.Head.Labels,
					CreationTimestamp: metav1.Time{Time: now}},
				Timestamp: metav1.Time{Time: now}, Window: metav1.Duration{Duration: window},
				Usage: noUsage(),
			}
		}
	}
	if len(byName) == 0 {
		return nil, nil
	}
	for _, u := range m.measure(sn, "", "") {
		if n := byName[u.pod.Spec.NodeName]; n != nil {
			for _, c := range u.containers {
				add(n.Usage, c.Usage)
			}
		}
	}
	var all []runtime.Object
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	return all, nil
}

func noUsage() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: {Format: apiresource.DecimalSI}, corev1.ResourceMemory: {Format: apiresource.BinarySI},
	}
}

func add(to, usage corev1.ResourceList) {
	for name, more := range usage {
		sum := to[name]
		sum.Add(more)
		to[name] = sum
	}
}

// used is the usage of one pod.
type used struct {
	pod        *pod
	labels     map[string]string
	at         time.Time
	window     time.Duration
	containers []v1beta1.ContainerMetrics
}

func (u *used) metrics() *v1beta1.PodMetrics {
	return &v1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{
			Name: u.pod.Metadata.Name, Namespace: u.pod.Metadata.Namespace, Labels: u.labels,
			CreationTimestamp: metav1.Time{Time: u.at},
		},
		Timestamp: metav1.Time{Time: u.at}, Window: metav1.Duration{Duration: u.window}, Containers: u.containers,
	}
}

// measure returns the usage of the running pods in a namespace with a name; "" means any.
func (m *meter) measure(sn *store.Snapshot, namespace, name string) []*used {
	now := time.Now()
	var all []*used
	replicas := map[string]int{} // by the controller's UID
	for obj := range sn.Scan("pods", namespace, store.Key{}) {
		p, err := decode(obj)
		if err != nil || len(p.running) == 0 || !m.cfg.Node(p.Spec.NodeName) {
			continue
		}
		replicas[p.controller]++
		if name == "" || name == obj.Key.Name {
			all = append(all, &used{pod: p, labels: obj.Head.Labels, at: now, window: window})
		}
	}
	processes := m.processes.sample(now, all)
	return slices.DeleteFunc(all, func(u *used) bool {
		if err := u.fill(processes, cmp.Or(replicas[u.pod.controller], 1)); err != nil {
			m.cfg.Log.Warn("compute usage of pod; omitting it", "namespace", u.pod.Metadata.Namespace, "pod",
				u.pod.Metadata.Name, "err", err)
			return true
		}
		return len(u.containers) == 0
	})
}

// fill sets the usage of each running container.
func (u *used) fill(measured map[string]measurement, replicas int) error {
	if u.pod.controller == "" {
		replicas = 1
	}
	for _, c := range u.pod.running {
		if c.process != 0 {
			if m, ok := measured[c.id]; ok {
				u.window = m.window
				u.containers = append(u.containers, v1beta1.ContainerMetrics{Name: c.name, Usage: m.usage})
			}
			continue
		}
		usage, err := u.pod.declared(c.name, u.at, replicas)
		if err != nil {
			return err
		}
		u.containers = append(u.containers, v1beta1.ContainerMetrics{Name: c.name, Usage: usage})
	}
	return nil
}
