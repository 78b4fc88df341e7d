// Command metrics-apiserver serves metrics.k8s.io over the /proc file system of its machine: the
// machine is a node, and the processes of each user are a pod.
package main

import (
	"time"

	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"kelson.dev/apiserver"
)

// API describes a server for the metrics of a meter.
func API(m *meter) apiserver.Part {
	age := apiserver.MaxAge(15 * time.Second)
	return apiserver.Group("metrics.k8s.io",
		apiserver.Kind(&v1beta1.NodeMetrics{}, apiserver.Names("nodes"), apiserver.ClusterScoped(),
			apiserver.From(nodes{m}, age)),
		apiserver.Kind(&v1beta1.PodMetrics{}, apiserver.Names("pods"), apiserver.From(pods{m}, age)))
}

func main() { apiserver.Main(API(&meter{proc: "/proc"})) }
