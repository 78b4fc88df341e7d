// Package cluster reads and writes a Kubernetes cluster for the console, with the rights of one
// kubeconfig: which kinds it serves, tables as the server prints them, objects and watches.
//
// It uses the REST API directly, so that it can forward tables and metadata of any kind without
// decoding whole objects.
package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"kelson.dev/console/internal/web"
)

// Media types that clients of the API request.
const (
	JSON  = "application/json"
	Table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
)

// Cluster is a connection to an API server. It is safe for concurrent use.
type Cluster struct {
	config     *rest.Config
	namespaces []string
	host       string
	base       *url.URL
	client     *http.Client
	discovery  *discovery.DiscoveryClient

	mu      sync.Mutex
	kinds   []Kind
	failure error
	read    time.Time
}

// Kind is a kind of object that the cluster serves, in the version that the server prefers.
type Kind struct {
	Group      string   `json:"group,omitempty"`
	Version    string   `json:"version"`
	Resource   string   `json:"resource"`
	Kind       string   `json:"kind"`
	Namespaced bool     `json:"namespaced"`
	Short      []string `json:"short,omitempty"`
	Verbs      []string `json:"verbs"`
}

// Name returns the name of the resource with its group: deployments.apps, or pods.
func (k Kind) Name() string {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}.String()
}

// Can reports whether the resource has a verb.
func (k Kind) Can(verb string) bool { return slices.Contains(k.Verbs, verb) }

// Path returns the path of the collection in a namespace, or in all of them if it is empty, or of
// the object if name is not empty.
func (k Kind) Path(namespace, name string, subresource ...string) string {
	p := "/apis/" + k.Group + "/" + k.Version
	if k.Group == "" {
		p = "/api/" + k.Version
	}
	if k.Namespaced && namespace != "" {
		p += "/namespaces/" + url.PathEscape(namespace)
	}
	p += "/" + k.Resource
	if name != "" {
		p += "/" + url.PathEscape(name)
	}
	for _, s := range subresource {
		p += "/" + s
	}
	return p
}

// New returns a connection with the rights of config. The namespaces are read one by one if the
// user may not list objects in all namespaces. If there are none, these are all namespaces that the
// user may list.
func New(config *rest.Config, namespaces []string) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "kelson-console"
	config.Timeout = 0 // streams have no end
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to cluster: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to cluster: %w", err)
	}
	config.QPS = -1
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("connect to cluster: %w", err)
	}
	return &Cluster{config: config, host: base.Host, base: base, client: client, discovery: disco,
		namespaces: namespaces}, nil
}

// Config returns a copy of the configuration of the connection.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Host returns the address of the API server.
func (c *Cluster) Host() string { return c.host }

// Version returns the version of the API server.
func (c *Cluster) Version() (string, error) {
	v, err := c.discovery.ServerVersion()
	if err != nil {
		return "", err
	}
	return v.GitVersion, nil
}

// Request is a request to the API server.
type Request struct {
	Method      string // default GET
	Path        string
	Query       url.Values
	Accept      string // default JSON
	Body        io.Reader
	ContentType string
}

// target returns the URL of a request.
func (c *Cluster) target(r Request) (*url.URL, error) {
	for segment := range strings.SplitSeq(r.Path, "/") {
		if segment == "." || segment == ".." {
			// objects cannot have such names, and servers would interpret them as another path
			return nil, web.Errorf(http.StatusBadRequest, "%q is not a name", segment)
		}
	}
	target := c.base.JoinPath() // a copy
	target.RawPath = strings.TrimSuffix(c.base.EscapedPath(), "/") + r.Path
	var err error
	if target.Path, err = url.PathUnescape(target.RawPath); err != nil {
		return nil, err
	}
	target.RawQuery = r.Query.Encode()
	return target, nil
}

// Do sends a request. It returns an error with the server's status if the code is 400 or higher.
// The caller closes the body of the response.
func (c *Cluster) Do(ctx context.Context, r Request) (*http.Response, error) {
	target, err := c.target(r)
	if err != nil {
		return nil, err
	}
	method := cmp.Or(r.Method, http.MethodGet)
	req, err := http.NewRequestWithContext(ctx, method, target.String(), r.Body)
	if err != nil {
		return nil, err
	}
	accept := cmp.Or(r.Accept, JSON)
	req.Header.Set("Accept", accept)
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	status := &metav1.Status{}
	if json.Unmarshal(data, status) == nil && status.Kind == "Status" && status.Code >= 400 {
		return nil, &apierrors.StatusError{ErrStatus: *status}
	}
	return nil, web.Errorf(resp.StatusCode, "%s %s: %s", method, r.Path, resp.Status)
}

// Get decodes the response to a GET as JSON.
func (c *Cluster) Get(ctx context.Context, r Request, into any) error {
	resp, err := c.Do(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("read %s: %w", r.Path, err)
	}
	return nil
}

// kindsAge is the time after which the list of kinds is read again.
const kindsAge = 5 * time.Second

// Kinds returns the kinds that can be listed, sorted by group and resource. If some API groups
// can't be read, it returns those of the others.
func (c *Cluster) Kinds() ([]Kind, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.read) < kindsAge {
		return c.kinds, c.failure
	}
	lists, err := c.discovery.ServerPreferredResources()
	var kinds []Kind
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			k := Kind{Group: gv.Group, Version: gv.Version, Resource: r.Name, Kind: r.Kind, Namespaced: r.Namespaced,
				Short: r.ShortNames, Verbs: r.Verbs}
			if k.Can("list") && !strings.Contains(r.Name, "/") {
				kinds = append(kinds, k)
			}
		}
	}
	slices.SortFunc(kinds, func(a, b Kind) int {
		return strings.Compare(a.Group+"/"+a.Resource, b.Group+"/"+b.Resource)
	})
	if len(kinds) > 0 {
		err = nil
	}
	c.kinds, c.failure, c.read = kinds, err, time.Now()
	return kinds, err
}

// Owner returns the kind of an owner reference, in its version.
func (c *Cluster) Owner(ref metav1.OwnerReference) (Kind, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return Kind{}, err
	}
	kinds, err := c.Kinds()
	if err != nil {
		return Kind{}, err
	}
	for _, k := range kinds {
		if k.Group == gv.Group && k.Kind == ref.Kind {
			k.Version = gv.Version
			return k, nil
		}
	}
	return Kind{}, web.Errorf(http.StatusNotFound, "the server has no kind %s in %s", ref.Kind, ref.APIVersion)
}

// Kind returns the kind with the name of a resource, such as deployments.apps.
func (c *Cluster) Kind(name string) (Kind, error) {
	kinds, err := c.Kinds()
	if err != nil {
		return Kind{}, err
	}
	for _, k := range kinds {
		if k.Name() == name {
			return k, nil
		}
	}
	return Kind{}, web.Errorf(http.StatusNotFound, "the server doesn't have a resource type %q", name)
}
