package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"kelson.dev/test/child"
)

// cloud runs an external cloud-controller-manager with `kelson serve --cloud-provider=external`.
func cloud(ctx context.Context, dir, kelson, components string) error {
	port, err := child.FreePort()
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "kubeconfig-cloud")
	server, err := child.Start(dir, kelson, "serve", "--data-dir", filepath.Join(dir, "cloud"), "--kubeconfig", config,
		"--secure-port", port,
		"--node", "simulated", "--cloud-provider", "external")
	if err != nil {
		return err
	}
	defer server.Stop(10 * time.Second)
	c, err := connect(ctx, config, server)
	if err != nil {
		return err
	}
	if err := c.steps(ctx, []step{{"node waits for a cloud", c.uninitialized}}); err != nil {
		return err
	}
	manager, err := child.Start(dir, filepath.Join(components, "cloud-controller-manager"), "--kubeconfig", config,
		"--authentication-kubeconfig", config,
		"--authorization-kubeconfig", config, "--cloud-provider=fake", "--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port=0",
		"--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16", "--configure-cloud-routes=true",
		"--route-reconciliation-period=2s")
	if err != nil {
		return err
	}
	defer manager.Stop(10 * time.Second)
	err = c.steps(ctx, []step{
		{"node initialized by its cloud", c.initialized},
		{"load balancer of the cloud", c.balanced},
		{"route to the node's pods", c.routed},
	})
	if err != nil {
		return fmt.Errorf("%w\ncloud-controller-manager:\n%s", err, manager.Output())
	}
	return nil
}

// node returns the only node.
func (c *cluster) node(ctx context.Context) (*corev1.Node, error) {
	nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err == nil && len(nodes.Items) != 1 {
		err = fmt.Errorf("%d nodes", len(nodes.Items))
	}
	if err != nil {
		return nil, err
	}
	return &nodes.Items[0], nil
}

func (c *cluster) uninitialized(ctx context.Context) error {
	node, err := c.node(ctx)
	if err != nil {
		return err
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
			return nil
		}
	}
	return fmt.Errorf("taints %v", node.Spec.Taints)
}

func (c *cluster) initialized(ctx context.Context) error {
	node, err := c.node(ctx)
	if err != nil {
		return err
	}
	if c.uninitialized(ctx) == nil || node.Spec.ProviderID != "fake://"+node.Name ||
		node.Labels[corev1.LabelInstanceTypeStable] != "fake.large" ||
		node.Labels[corev1.LabelTopologyZone] != "zone-1" {
		return fmt.Errorf("provider ID %q, labels %v, taints %v", node.Spec.ProviderID, node.Labels, node.Spec.Taints)
	}
	for _, address := range node.Status.Addresses {
		if address.Address == "198.51.100.9" {
			return nil
		}
	}
	return fmt.Errorf("addresses %v", node.Status.Addresses)
}

func (c *cluster) balanced(ctx context.Context) error {
	services := c.CoreV1().Services(metav1.NamespaceDefault)
	service, err := services.Get(ctx, "balanced", metav1.GetOptions{})
	if err != nil {
		_, err = services.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "balanced"},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}},
			}}, metav1.CreateOptions{})
		if err == nil {
			err = fmt.Errorf("the Service was just created")
		}
		return err
	}
	if ingress := service.Status.LoadBalancer.Ingress; len(ingress) != 1 || ingress[0].IP != "203.0.113.7" {
		return fmt.Errorf("ingress %v", ingress)
	}
	return nil
}

// routed gives the node a range of pod addresses, as a controller of such ranges does, and waits
// until the cloud has a route to it.
func (c *cluster) routed(ctx context.Context) error {
	node, err := c.node(ctx)
	if err != nil {
		return err
	}
	if node.Spec.PodCIDR == "" {
		node.Spec.PodCIDR, node.Spec.PodCIDRs = "10.244.0.0/24", []string{"10.244.0.0/24"}
		if _, err := c.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeNetworkUnavailable && condition.Status == corev1.ConditionFalse &&
			condition.Reason == "RouteCreated" {
			return nil
		}
	}
	return fmt.Errorf("conditions %v", node.Status.Conditions)
}
