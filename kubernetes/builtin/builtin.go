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
	"kelson.dev/kubernetes/emulation"
	"kelson.dev/kubernetes/tokens"
)

// Config configures the kinds of one control plane. The zero value serves every kind, allows every
// request, has the default ranges for Services, and reads logs from kubelets.
type Config struct {
	// Objects returns access to other objects, which some rules need. For example, the rules of
	// Services need the addresses of existing Services. Objects is called only when a write needs
	// it. nil: there are no other objects.
	Objects func() resource.Objects
	// Logs opens the log of a container. opts.Container is set and names one of the pod's
	// containers. It is called for the nodes that Node returns, or for all if Node is nil. The
	// caller must close the reader; canceling ctx also ends it. nil: all logs are read from
	// kubelets.
	Logs func(ctx context.Context, pod *corev1.Pod, opts *corev1.PodLogOptions) (io.ReadCloser, error)

	// Node returns a node that runs in this process, for the subresources that connect to
	// containers. nil: no node runs in this process.
	Node func(name string) (Node, bool)
	// Kubelets configures the connections to all other nodes.
	Kubelets Kubelets

	// Authorizer answers access reviews; nil allows everything. If it also implements
	// authorizer.RuleResolver, it answers rules reviews.
	Authorizer authorizer.UnconditionalAuthorizer
	// Registry resolves the kinds of admission policies' parameters. nil: no kind is found.
	Registry *resource.Registry
	// Rules prevents users from writing roles and bindings that grant permissions that they do not
	// have. nil: every user may write any role and binding.
	Rules Rules
	// Authenticator answers token reviews; nil rejects every token. Audiences are those of this
	// server.
	Authenticator authenticator.Request
	Audiences     []string

	// Tokens issues the tokens of service accounts. If nil, serviceaccounts/token is not served.
	Tokens *tokens.Issuer

	// Store holds the Services and their addresses and ports. It is required for writes of
	// Services.
	Store *store.Store
	// ServiceRange is the CIDR of cluster IPs, or two CIDRs of different families, separated by a
	// comma. Empty means DefaultServiceRange.
	ServiceRange string
	// NodePorts is the range of node ports as "first-last". Empty means DefaultNodePorts.
	NodePorts string

	// APIs selects the versions and resources that are served; nil means all stable versions.
	APIs *APIs
	// Version is the release of Kubernetes whose kinds and versions are served; the zero value
	// means the linked release. The caller must have claimed it; see package emulation.
	Version emulation.Version

	// Components are those that run in this process, for ComponentStatuses.
	Components Components

	// NoFastPaths turns all fast paths off, so that Kubernetes' libraries do all work; see package
	// fastpath.
	NoFastPaths bool
}

// The default ranges of Services.
const (
	DefaultServiceRange = "10.0.0.0/24"
	DefaultNodePorts    = "30000-32767"
)

// kinds builds the entries of one control plane, and resolves the Resources to which their rules
// refer.
type kinds struct {
	cfg Config
	// complete when Resources returns, and not modified afterwards; includes kinds that are not
	// served
	byName map[schema.GroupResource]*resource.Resource
}

func (k *kinds) resource(group, plural string) *resource.Resource {
	return k.byName[schema.GroupResource{Group: group, Resource: plural}]
}

// Resources returns the Resources of the built-in kinds that one control plane serves. All control
// planes of a process share the Resources that do not depend on cfg. An error means that cfg is
// invalid.
func Resources(cfg Config) ([]*resource.Resource, error) {
	all, err := allKinds(cfg)
	if err != nil {
		return nil, err
	}
	return emulated(selected(all, cfg.APIs), cfg.APIs, cfg.Version)
}

// allKinds returns all kinds, with all versions that can be served.
func allKinds(cfg Config) ([]*resource.Resource, error) {
	// The validation of pods accepts privileged containers; only admission policies refuse them.
	// Kubernetes keeps this setting once per process.
	capabilities.Setup(true, 0)
	k := &kinds{cfg: cfg, byName: map[schema.GroupResource]*resource.Resource{}}
	services, err := newServices(k)
	if err != nil {
		return nil, err
	}
	unshared, err := build(cfg.NoFastPaths, k.core(services), k.reviews())
	if err != nil {
		return nil, err
	}
	shared, err := sharedResources(cfg.NoFastPaths)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(unshared, k.guarded(k.policies(k.signed(k.claims(shared)))))
	for _, r := range all {
		k.byName[r.GroupResource()] = r
	}
	return all, nil
}

// sharedResources returns the kinds that do not depend on a Config. Resources are immutable, so all
// control planes of a process share them, including the data that their codecs compute on first
// use. Control planes without fast paths share a separate set.
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
	return build(noFastPaths, plainCore(), workloads(), clusterKinds(), deviceKinds(), requestedKinds(), apiServices())
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
