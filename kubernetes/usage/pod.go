package usage

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kelson.dev/apiserver/store"
)

// pod is the part of a Pod that its usage depends on. It is decoded once for each revision.
type pod struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		ContainerStatuses     []containerStatus `json:"containerStatuses"`
		InitContainerStatuses []containerStatus `json:"initContainerStatuses"`
	} `json:"status"`

	controller string // UID; "" if it has none
	running    []container
}

type containerStatus struct {
	Name        string `json:"name"`
	ContainerID string `json:"containerID"`
	State       struct {
		Running *struct {
			StartedAt time.Time `json:"startedAt"`
		} `json:"running"`
	} `json:"state"`
}

// container is a running container.
type container struct {
	name, id string
	process  int // 0: simulated
	started  time.Time
}

type podKey struct{}

func decode(obj *store.Object) (*pod, error) {
	v, err := obj.Memo(podKey{}, func() (any, error) {
		p := &pod{}
		if err := json.Unmarshal(obj.Data, p); err != nil {
			return nil, err
		}
		for _, owner := range obj.Head.Owners {
			if owner.Controller {
				p.controller = string(owner.UID)
			}
		}
		for _, statuses := range [][]containerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for _, s := range statuses {
				if s.State.Running == nil {
					continue
				}
				c := container{name: s.Name, id: s.ContainerID, started: s.State.Running.StartedAt}
				if n, err := fmt.Sscanf(s.ContainerID, "process://%d-", &c.process); n == 0 || err != nil {
					c.process = 0
				}
				p.running = append(p.running, c)
			}
		}
		p.Status.ContainerStatuses, p.Status.InitContainerStatuses = nil, nil
		return p, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*pod), nil
}

// KWOK's usage of containers without a declared one.
var (
	idleCPU    = resource.MustParse("1m")
	idleMemory = resource.MustParse("1Mi")
)

// declared returns the declared usage of a simulated container.
func (p *pod) declared(container string, now time.Time, replicas int) (corev1.ResourceList, error) {
	cpu, err := p.profile(CPUAnnotation, kwokCPU, container, now, replicas, idleCPU)
	if err != nil {
		return nil, err
	}
	memory, err := p.profile(MemoryAnnotation, kwokMemory, container, now, replicas, idleMemory)
	return corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}, err
}

// profile returns the usage that the first of these declares: the annotation of the container, of
// the pod, of KWOK.
func (p *pod) profile(annotation, kwok, container string, now time.Time, replicas int,
	otherwise resource.Quantity) (resource.Quantity, error) {
	for _, from := range []struct {
		name   string
		shared int
	}{{annotation + "." + container, 1}, {annotation, len(p.running)}, {kwok, 1}} {
		text, ok := p.Metadata.Annotations[from.name]
		if !ok {
			continue
		}
		profile, err := ParseProfile(text)
		if err != nil {
			return resource.Quantity{}, fmt.Errorf("annotation %s: %w", from.name, err)
		}
		return share(profile.At(now, replicas), from.shared), nil
	}
	return otherwise, nil
}
