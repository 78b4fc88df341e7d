package stages

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/utils/net"

	"kelson.dev/kubernetes/node/stage"
)

// functions returns the functions of an object's templates.
func (c *Controller) functions(o *stage.Object) stage.Functions {
	first := func(all []string) string {
		if len(all) == 0 {
			return ""
		}
		return all[0]
	}
	name := o.GetName()
	return stage.Functions{
		"NodeIP":      func() string { return c.nodes.Address(name) },
		"NodeName":    func() string { return name },
		"NodePort":    func() int { return 0 }, // simulated kubelets listen on no port
		"NodeIPWith":  func(node string) string { return first(c.nodeIPs(node)) },
		"NodeIPsWith": c.nodeIPs,
		"PodIP": func() (string, error) {
			return c.podIP("", o.GetUID(), o.GetName(), o.GetNamespace(), statusIP(o))
		},
		"PodIPWith": func(node string, host bool, uid, name, namespace string) (string, error) {
			all, err := c.podIPs(o, node, host, uid, name, namespace)
			return first(all), err
		},
		"PodIPsWith": func(node string, host bool, uid, name, namespace string) ([]string, error) {
			return c.podIPs(o, node, host, uid, name, namespace)
		},
	}
}

// statusIP returns the address in the status of a pod, or "".
func statusIP(o *stage.Object) string {
	status, _ := o.Object["status"].(map[string]any)
	ip, _ := status["podIP"].(string)
	return ip
}

// nodeIPs returns the addresses of a node: the first, and the first of the other IP family.
func (c *Controller) nodeIPs(name string) []string {
	n, err := c.cfg.Shared.Nodes.Get("", name)
	if err != nil {
		return nil
	}
	var all []string
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, address := range n.Status.Addresses {
			if address.Type != kind || len(all) > 1 {
				continue
			}
			if len(all) == 0 || utilnet.IsIPv6String(all[0]) != utilnet.IsIPv6String(address.Address) {
				all = append(all, address.Address)
			}
		}
	}
	if len(all) == 0 {
		return []string{c.nodes.Address(name)}
	}
	return all
}

func (c *Controller) podIPs(o *stage.Object, node string, host bool, uid, name, namespace string) ([]string, error) {
	if host {
		return c.nodeIPs(node), nil
	}
	ip, err := c.podIP(node, types.UID(uid), name, namespace, statusIP(o))
	if err != nil {
		return nil, err
	}
	return []string{ip}, nil
}

// podIP returns the address of a pod. The address stays the same until the pod is deleted.
func (c *Controller) podIP(_ string, uid types.UID, name, namespace, current string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.pods[uid]; s != nil {
		return s.IP(), nil
	}
	s, err := c.cfg.Runtime.Sandbox(c.life, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid},
		Status:     corev1.PodStatus{PodIP: current},
	})
	if err != nil {
		return "", fmt.Errorf("address of pod %s/%s: %w", namespace, name, err)
	}
	c.pods[uid] = s
	return s.IP(), nil
}

// freeAddress frees the address of a deleted pod.
func (c *Controller) freeAddress(uid types.UID) {
	c.mu.Lock()
	s := c.pods[uid]
	delete(c.pods, uid)
	c.mu.Unlock()
	if s != nil {
		_ = s.Remove() // always nil
	}
}
