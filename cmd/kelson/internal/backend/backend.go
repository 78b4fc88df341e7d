// Package backend registers a custom API server on this machine with a cluster: its Services become
// aliases of this machine, and its APIServices get the authority of its certificate.
//
//	b, err := backend.New(project, client, kubeconfig, temp)
//	// run project.Args
//	served, err := b.Register(ctx, apply, ended)
//	err = b.Unregister()
package backend

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/pki"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/operator/client"
)

// urlAnnotation makes Kelson's control planes find the backend of a Service at a URL.
const urlAnnotation = "kelson.dev/url"

var (
	apiServices = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
	services    = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	namespaces  = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

// Timeout is how long a process may take to start serving.
const Timeout = 30 * time.Second

// Backend is a custom API server on this machine that a cluster calls. Its methods must not be
// called concurrently.
type Backend struct {
	client   client.Client
	address  string
	services []client.Key
	objects  manifests.Objects // namespaces and APIServices
	starts   int
}

// New prepares the API server of a project: its authority and address. It adds the arguments with
// which the server must run to p.Args. The certificates are in the folder temp. New does not change
// the cluster.
func New(p *project.Project, c client.Client, kubeconfig, temp string) (*Backend, error) {
	registered, err := manifests.APIServices(p.Dir)
	if err != nil {
		return nil, err
	}
	if len(registered) == 0 {
		return nil, fmt.Errorf("%s has no APIServices in config/apiservice: create a kind with kelson create api",
			p.Dir)
	}
	certs := filepath.Join(temp, "certs")
	authority, err := pki.OpenAuthority(certs, "apiserver")
	if err != nil {
		return nil, err
	}
	b := &Backend{client: c}
	if b.address, err = FreeAddress(); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(b.address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return nil, err
	}
	p.Args = append(p.Args, "--kubeconfig="+kubeconfig, "--bind-address="+host, "--secure-port="+port,
		"--cert-dir="+certs)
	seen, seenNamespace := map[client.Key]bool{}, map[string]bool{}
	for _, obj := range registered {
		name, _, _ := unstructured.NestedString(obj.Object, "spec", "service", "name")
		namespace, _, _ := unstructured.NestedString(obj.Object, "spec", "service", "namespace")
		if name == "" || namespace == "" {
			return nil, fmt.Errorf("APIService %s in config/apiservice has no spec.service with name and namespace",
				obj.GetName())
		}
		if key := (client.Key{Namespace: namespace, Name: name}); !seen[key] {
			seen[key] = true
			b.services = append(b.services, key)
			p.Args = append(p.Args, "--serving-name="+name+"."+namespace+".svc")
		}
		if !seenNamespace[namespace] {
			seenNamespace[namespace] = true
			ns := &unstructured.Unstructured{}
			ns.SetGroupVersionKind(namespaces)
			ns.SetName(namespace)
			b.objects = append(b.objects, ns)
		}
		err := errors.Join(
			unstructured.SetNestedField(obj.Object, number, "spec", "service", "port"),
			unstructured.SetNestedField(obj.Object, base64.StdEncoding.EncodeToString(authority.PEM), "spec",
				"caBundle"))
		if err != nil {
			return nil, err
		}
		b.objects = append(b.objects, obj)
	}
	return b, nil
}

// aliases returns the Services. They differ after each start, because the cluster checks an API
// server again when its Service changes.
func (b *Backend) aliases() (manifests.Objects, error) {
	_, port, err := net.SplitHostPort(b.address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return nil, err
	}
	var all manifests.Objects
	for _, key := range b.services {
		// other API servers ignore the annotation and use the external name
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"type": "ExternalName", "externalName": "localhost", "ports": []any{map[string]any{"port": number}},
		}}}
		obj.SetGroupVersionKind(services)
		obj.SetNamespace(key.Namespace)
		obj.SetName(key.Name)
		obj.SetAnnotations(map[string]string{urlAnnotation: "https://" + b.address,
			"kelson.dev/started": strconv.Itoa(b.starts)})
		all = append(all, obj)
	}
	return all, nil
}

// Register waits until the API server accepts connections, registers it with apply, and waits until
// its APIServices are available. It returns false if the server ends first. The first call returns
// an error if the API server is deployed in the cluster, whose Service it would replace.
func (b *Backend) Register(ctx context.Context, apply func(context.Context, manifests.Objects) error,
	ended <-chan struct{}) (bool, error) {
	if served, err := Accepts(ctx, b.address, ended); err != nil {
		return false, fmt.Errorf("wait for the API server: it does not serve at %s: %w", b.address, err)
	} else if !served {
		return false, nil
	}
	if b.starts == 0 {
		if err := b.notDeployed(ctx); err != nil {
			return false, err
		}
	}
	b.starts++
	aliases, err := b.aliases()
	if err != nil {
		return false, err
	}
	if err := apply(ctx, append(b.objects[:len(b.objects):len(b.objects)], aliases...)); err != nil {
		return false, err
	}
	return b.available(ctx, ended)
}

// notDeployed returns an error if a Service exists that is not an alias of this machine.
func (b *Backend) notDeployed(ctx context.Context) error {
	for _, key := range b.services {
		service := &unstructured.Unstructured{}
		service.SetGroupVersionKind(services)
		err := b.client.Get(ctx, key, service)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get service %s/%s: %w", key.Namespace, key.Name, err)
		}
		if service.GetAnnotations()[urlAnnotation] == "" {
			return fmt.Errorf("the API server is deployed in the cluster, as service %s/%s: remove it with kelson undeploy, or use another cluster", key.Namespace, key.Name)
		}
	}
	return nil
}

// Versions returns the group versions of the APIServices.
func (b *Backend) Versions() (all []schema.GroupVersion) {
	for _, obj := range b.objects {
		if obj.GroupVersionKind() == apiServices {
			group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
			version, _, _ := unstructured.NestedString(obj.Object, "spec", "version")
			all = append(all, schema.GroupVersion{Group: group, Version: version})
		}
	}
	return all
}

// available waits until all APIServices are available. It returns false if the server ends first.
func (b *Backend) available(ctx context.Context, ended <-chan struct{}) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	for _, obj := range b.objects {
		if obj.GroupVersionKind() != apiServices {
			continue
		}
		for {
			apiService := &unstructured.Unstructured{}
			apiService.SetGroupVersionKind(apiServices)
			err := b.client.Get(ctx, client.Key{Name: obj.GetName()}, apiService)
			yes, why := condition(apiService, "Available")
			if err == nil && yes {
				break
			}
			select {
			case <-ended:
				return false, nil
			case <-ctx.Done():
				return false, errors.Join(fmt.Errorf("wait for APIService %s: not available after %s: %s",
					obj.GetName(), Timeout, why), err)
			case <-time.After(50 * time.Millisecond): // the client cannot watch this kind
			}
		}
	}
	return true, nil
}

// condition returns the status of a condition and its message.
func condition(obj *unstructured.Unstructured, name string) (bool, string) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == name {
			message, _ := c["message"].(string)
			return c["status"] == "True", message
		}
	}
	return false, "it has no condition " + name
}

// Unregister deletes the Services and APIServices, which would otherwise refer to a server that has
// ended. The namespaces stay.
func (b *Backend) Unregister() error {
	if b.starts == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var errs []error
	remove := func(kind schema.GroupVersionKind, key client.Key) {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(kind)
		obj.SetNamespace(key.Namespace)
		obj.SetName(key.Name)
		if err := b.client.Delete(ctx, obj); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete %s %s: %w", kind.Kind, key.Name, err))
		}
	}
	for _, obj := range b.objects {
		if obj.GroupVersionKind() == apiServices {
			remove(apiServices, client.Key{Name: obj.GetName()})
		}
	}
	for _, key := range b.services {
		remove(services, key)
	}
	return errors.Join(errs...)
}
