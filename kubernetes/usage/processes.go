package usage

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// measureAgain is how old a reading must be before a later one replaces it, so that clients that
// ask often do not measure only the moments between their requests.
const measureAgain = 10 * time.Second

// processes measures the containers of the process runtime. It keeps two readings of each container
// in the last sample. The processor usage is that between the two readings.
type processes struct {
	mu   sync.Mutex
	last map[string]readings // by the container's ID
}

// readings are the processor time that a container had used at two times.
type readings struct{ older, newer reading }

type reading struct {
	at  time.Time
	cpu time.Duration
}

// measurement is the usage of a container in the window that ends with the measurement.
type measurement struct {
	usage  corev1.ResourceList
	window time.Duration
}

// sample measures the containers of the process runtime in pods, by ID. A container without a
// process is omitted. Before a container's second reading, its processor usage is the
// average since it started.
func (p *processes) sample(now time.Time, pods []*used) map[string]measurement {
	roots := map[int]container{}
	for _, u := range pods {
		for _, c := range u.pod.running {
			if c.process != 0 {
				roots[c.process] = c
			}
		}
	}
	if len(roots) == 0 {
		return nil
	}
	totals := readProcesses(roots)
	p.mu.Lock()
	defer p.mu.Unlock()
	measured, next := map[string]measurement{}, map[string]readings{}
	for root, total := range totals {
		c := roots[root]
		previous, ok := p.last[c.id]
		if !ok {
			started := reading{at: c.started}
			previous = readings{started, started}
		}
		if now.Sub(previous.newer.at) >= measureAgain {
			previous = readings{previous.newer, reading{now, total.cpu}}
		}
		next[c.id] = previous
		since := previous.older
		if previous.newer.at.Before(now) {
			since = previous.newer
			if now.Sub(since.at) < time.Second { // too short a window
				since = previous.older
			}
		}
		window := max(now.Sub(since.at), time.Millisecond)
		nanos := float64(max(total.cpu-since.cpu, 0)) / window.Seconds()
		measured[c.id] = measurement{window: window.Round(time.Millisecond), usage: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(nanos), resource.Nano),
			corev1.ResourceMemory: *resource.NewQuantity(total.memory, resource.BinarySI),
		}}
	}
	p.last = next
	return measured
}

// total is the processor time that a process and its descendants have used, and their memory in
// bytes.
type total struct {
	cpu    time.Duration
	memory int64
}
