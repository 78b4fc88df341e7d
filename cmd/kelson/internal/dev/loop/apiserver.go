package loop

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
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

// backend is a custom API server on this machine that a cluster calls: its Services are aliases of
// this machine, and its APIServices have the authority of its certificate.
type backend struct {
	client   client.Client
	address  string
	services []client.Key
	objects  manifests.Objects // namespaces and APIServices
	starts   int
}

// newBackend prepares the API server of a project: its authority, address and arguments. temp is a
// folder for its certificates and state.
func newBackend(p *project.Project, c client.Client, kubeconfig, temp string) (*backend, error) {
	registered, err := manifests.APIServices(p.Dir)
	if err != nil {
		return nil, err
	}
	if len(registered) == 0 {
		return nil, fmt.Errorf("%s has no APIServices in config/apiservice: create a kind with kelson create api", p.Dir)
	}
	certs := filepath.Join(temp, "certs")
	authority, err := pki.OpenAuthority(certs, "apiserver")
	if err != nil {
		return nil, err
	}
	b := &backend{client: c}
	if b.address, err = freeAddress(); err != nil {
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
		"--cert-dir="+certs, "--data-dir="+filepath.Join(temp, "state"))
	seen, seenNamespace := map[client.Key]bool{}, map[string]bool{}
	for _, obj := range registered {
		name, _, _ := unstructured.NestedString(obj.Object, "spec", "service", "name")
		namespace, _, _ := unstructured.NestedString(obj.Object, "spec", "service", "namespace")
		if name == "" || namespace == "" {
			return nil, fmt.Errorf("APIService %s in config/apiservice has no spec.service with name and namespace", obj.GetName())
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
			unstructured.SetNestedField(obj.Object, base64.StdEncoding.EncodeToString(authority.PEM), "spec", "caBundle"))
		if err != nil {
			return nil, err
		}
		b.objects = append(b.objects, obj)
	}
	return b, nil
}

// aliases returns the Services. They differ after each start, because the cluster checks an API
// server again when its Service changes.
func (b *backend) aliases() (manifests.Objects, error) {
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
		// other clusters do not know the annotation and use the external name
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"type": "ExternalName", "externalName": "localhost", "ports": []any{map[string]any{"port": number}},
		}}}
		obj.SetGroupVersionKind(services)
		obj.SetNamespace(key.Namespace)
		obj.SetName(key.Name)
		obj.SetAnnotations(map[string]string{urlAnnotation: "https://" + b.address, "kelson.dev/started": strconv.Itoa(b.starts)})
		all = append(all, obj)
	}
	return all, nil
}

// register waits until the API server accepts connections, registers it, and waits until its
// APIServices are available. It returns nil if the server exits before: Run reports that.
func (b *backend) register(ctx context.Context, l *Loop, ended <-chan struct{}) error {
	served, err := serves(ctx, b.address, ended)
	if err != nil {
		return fmt.Errorf("wait for the API server: it does not serve at %s: %w", b.address, err)
	}
	if !served {
		return nil
	}
	b.starts++
	aliases, err := b.aliases()
	if err != nil {
		return err
	}
	if err := l.apply(ctx, append(b.objects[:len(b.objects):len(b.objects)], aliases...)); err != nil {
		return err
	}
	if err := b.available(ctx, ended); err != nil {
		return err
	}
	l.cfg.Log.Printf(l.subject(), "serves %s", strings.Join(b.versions(), ", "))
	return nil
}

// versions returns the group versions of the APIServices.
func (b *backend) versions() (all []string) {
	for _, obj := range b.objects {
		if obj.GroupVersionKind() == apiServices {
			group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
			version, _, _ := unstructured.NestedString(obj.Object, "spec", "version")
			all = append(all, group+"/"+version)
		}
	}
	return all
}

// available waits until all APIServices are available.
func (b *backend) available(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	for _, obj := range b.objects {
		if obj.GroupVersionKind() != apiServices {
			continue
		}
		for {
			is := &unstructured.Unstructured{}
			is.SetGroupVersionKind(apiServices)
			err := b.client.Get(ctx, client.Key{Name: obj.GetName()}, is)
			yes, why := condition(is, "Available")
			if err == nil && yes {
				break
			}
			select {
			case <-ended:
				return nil
			case <-ctx.Done():
				return errors.Join(fmt.Errorf("wait for APIService %s: not available after %s: %s", obj.GetName(), serveTimeout, why), err)
			case <-time.After(50 * time.Millisecond): // the client has no watch of this kind
			}
		}
	}
	return nil
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

// unregister deletes the Services and APIServices, which would name a server that has ended. The
// namespaces stay.
func (b *backend) unregister() error {
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
