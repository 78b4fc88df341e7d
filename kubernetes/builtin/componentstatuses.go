package builtin

import (
	"context"
	"crypto/tls"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/cluster/ports"
	"k8s.io/kubernetes/pkg/probe"
	"k8s.io/kubernetes/pkg/registry/core/componentstatus"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// computed is a kind whose objects are computed for each request; see resource.Resource.Computed.
type computed struct {
	namespaced bool
	read       func(ctx context.Context, namespace, name string) ([]runtime.Object, error)
}

// Components has the checks of components that run in this process, by the names that
// ComponentStatuses have: controller-manager, scheduler and etcd-0. A component is healthy if its
// check returns nil. If Components lacks the controller-manager or the scheduler, ComponentStatuses
// describe a process of this machine at its default port, as in Kubernetes.
type Components map[string]func() error

// componentStatuses returns the kind ComponentStatus, with Kubernetes' own registry. Kubernetes has
// deprecated it.
func (k *kinds) componentStatuses() *computed {
	// Created on first use: it is rarely used, and its printers need 30 KB.
	storage := sync.OnceValue(func() *componentstatus.REST {
		return componentstatus.NewStorage(k.cfg.Components.servers)
	})
	return &computed{read: func(ctx context.Context, _, name string) ([]runtime.Object, error) {
		if name != "" {
			hub, err := storage().Get(ctx, name, &metav1.GetOptions{})
			return []runtime.Object{hub}, err
		}
		hub, err := storage().List(ctx, nil)
		if err != nil {
			return nil, err
		}
		list := hub.(*core.ComponentStatusList)
		hubs := make([]runtime.Object, len(list.Items))
		for i := range list.Items {
			hubs[i] = &list.Items[i]
		}
		return hubs, nil
	}}
}

// servers returns the checks of all components.
func (c Components) servers() map[string]componentstatus.Server {
	all := map[string]componentstatus.Server{
		"controller-manager": process(ports.KubeControllerManagerPort),
		"scheduler":          process(schedulerconfig.DefaultKubeSchedulerPort),
	}
	for name, check := range c {
		all[name] = component(check)
	}
	return all
}

// process returns the check of a process of this machine that serves its health at a port.
func process(port int) componentstatus.Server {
	return &componentstatus.HttpServer{
		EnableHTTPS: true, TLSConfig: &tls.Config{InsecureSkipVerify: true}, Addr: "127.0.0.1", Port: port,
		Path: "/healthz",
	}
}

// component checks a component in this process.
type component func() error

// DoServerCheck implements [componentstatus.Server].
func (c component) DoServerCheck() (probe.Result, string, error) {
	if err := c(); err != nil {
		return probe.Failure, "", err
	}
	return probe.Success, "ok", nil
}
