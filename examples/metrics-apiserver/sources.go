package main

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// nodes is the source of NodeMetrics: one node, this machine.
type nodes struct{ *meter }

func (n nodes) List(ctx context.Context) ([]*v1beta1.NodeMetrics, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	use, window, err := n.machine(ctx)
	return []*v1beta1.NodeMetrics{{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Timestamp:  metav1.Now().Rfc3339Copy(), Window: window, Usage: use.list(),
	}}, err
}

// pods is the source of PodMetrics: one for each user with processes.
type pods struct{ *meter }

func (p pods) List(ctx context.Context) ([]*v1beta1.PodMetrics, error) {
	users, window, err := p.users(ctx)
	var all []*v1beta1.PodMetrics
	for uid, use := range users {
		all = append(all, &v1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "user-" + uid,
				Labels: map[string]string{"uid": uid}},
			Timestamp: metav1.Now().Rfc3339Copy(), Window: window,
			Containers: []v1beta1.ContainerMetrics{{Name: "processes", Usage: use.list()}},
		})
	}
	return all, err
}

// usage is the resource usage of a node or pod.
type usage struct {
	cpu    float64 // cores
	memory int64   // bytes
}

func (u usage) list() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(u.cpu*1000), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(u.memory, resource.BinarySI),
	}
}

// window is the time over which CPU is measured.
const window = 100 * time.Millisecond
