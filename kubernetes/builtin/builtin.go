package builtin

import (
	"context"
	"io"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/capabilities"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/tokens"
)

// Config says what the kinds of one control plane may use. The zero value serves every kind: without nodes'
// logs, with everyone allowed everything, and with the default ranges for Services.
type Config struct {
	// Objects gives the verbs to rules that look at other objects (the addresses that Services
	// have already). It is called when a write needs it, not before. nil: there are no other objects.
	Objects func() resource.Objects
	// Logs opens the log of a container: opts.Container is set and known to be one of the pod's. The reader is closed by
	// the caller; it ends with ctx. nil: pods/log answers 501.
	Logs func(ctx context.Context, pod *corev1.Pod, opts *corev1.PodLogOptions) (io.ReadCloser, error)

	// Node finds a node that runs in this process, for what leads into containers; nil: there is none.
	Node func(name string) (Node, bool)

	// Authorizer answers access reviews; nil allows everything. If it is an authorizer.RuleResolver, too, it answers rules reviews.
	Authorizer authorizer.UnconditionalAuthorizer
	// Registry is where the kinds of admission policies' parameters are found; nil: nowhere.
	Registry *resource.Registry
	// Rules keeps users from writing roles and bindings that give what they have not; nil: every user may write any.
	Rules Rules
	// Authenticator answers token reviews; nil knows no token. Audiences are those of this server.
	Authenticator authenticator.Request
	Audiences     []string

	// Tokens issues the tokens of service accounts; nil: serviceaccounts/token is not served.
	Tokens *tokens.Issuer

	// Store is needed if other servers write to the same store: it tells which addresses and ports they have allocated. nil: no other
	// server allocates.
	Store *store.Store
	// ServiceRange is the CIDR of cluster IPs, or two of different families with a comma; "" means DefaultServiceRange.
	ServiceRange string
	// NodePorts is the range of node ports as "first-last"; "" means DefaultNodePorts.
	NodePorts string

	// NoFastPaths leaves all work to the libraries of Kubernetes; see package fastpath.
	NoFastPaths bool
}

// The ranges of Services where the Config says nothing.
const (
	DefaultServiceRange = "10.0.0.0/24"
	DefaultNodePorts    = "30000-32767"
)

// kinds makes the entries of one control plane, and lets their rules find each other's Resources.
type kinds struct {
	cfg  Config
	made map[schema.GroupResource]*resource.Resource // complete when Resources returns, then never changed
}

func (k *kinds) resource(group, plural string) *resource.Resource {
	return k.made[schema.GroupResource{Group: group, Resource: plural}]
}

// Resources makes the Resources of all built-in kinds, for one control plane. All but those that
// depend on cfg are the same for all control planes of a process. An error names what is wrong with the Config.
func Resources(cfg Config) ([]*resource.Resource, error) {
	// Privileged containers are refused by policy, not by the validation of pods. Upstream keeps this one setting per process.
	capabilities.Setup(true, 0)
	k := &kinds{cfg: cfg, made: map[schema.GroupResource]*resource.Resource{}}
	services, err := newServices(k)
	if err != nil {
		return nil, err
	}
	own, err := build(cfg.NoFastPaths, k.core(services), k.reviews())
	if err != nil {
		return nil, err
	}
	shared, err := sharedResources(cfg.NoFastPaths)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(own, k.guarded(k.policies(k.signed(shared))))
	for _, r := range all {
		k.made[r.GroupResource()] = r
	}
	return all, nil
}

// sharedResources returns the kinds that do not depend on a Config. Resources never change, so all control planes of a process
// share them, and what their codecs compile on first use. Control planes without fast paths share a set of their own.
func sharedResources(noFastPaths bool) ([]*resource.Resource, error) {
	if noFastPaths {
		return sharedWithoutFastPaths()
	}
	return sharedWithFastPaths()
}

var (
	sharedWithFastPaths    = sync.OnceValues(func() ([]*resource.Resource, error) { return buildShared(false) })
	sharedWithoutFastPaths = sync.OnceValues(func() ([]*resource.Resource, error) { return buildShared(true) })
)

func buildShared(noFastPaths bool) ([]*resource.Resource, error) {
	return build(noFastPaths, plainCore(), workloads(), clusterKinds(), apiServices())
}

func build(noFastPaths bool, tables ...[]entry) ([]*resource.Resource, error) {
	var out []*resource.Resource
	for _, table := range tables {
		for i := range table {
			r, err := table[i].build(Scheme(), noFastPaths)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, nil
}
