package operatortest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/operatortest/manifest"
	"kelson.dev/operator/operatortest/record"
)

// Env is a control plane for a test.
type Env struct {
	server *server
	plane  *plane
	client client.Client
	made   options // the options it was created with, for forks

	registrations *registrations // nil without the option Webhooks
}

// Node selects how pods run.
type Node string

const (
	// NodeNone runs no pods: they stay Pending.
	NodeNone Node = "none"
	// NodeSimulated simulates the lifecycle of pods according to their spec, without processes.
	NodeSimulated Node = "simulated"
	// NodeProcess runs the containers' commands as processes on this machine, with the permissions
	// of this process.
	NodeProcess Node = "process"
)

// Option configures an Env.
type Option func(*options)

type options struct {
	crds      []string
	scheme    *runtime.Scheme
	node      Node
	nodes     []NodeGroup
	stages    []string // files and folders
	workloads bool
	run       []func(context.Context, *rest.Config) error
	fork      string // id of the plane to fork
	rbac      []string
	role      []string
	user      string // user of Run and Operator; "" for an administrator
	webhooks  bool   // of Webhooks
	hooks     []string
}

// CRDs installs the manifests in folders or files.
func CRDs(paths ...string) Option {
	return func(o *options) { o.crds = append(o.crds, paths...) }
}

// RBAC installs the RBAC manifests in folders or files, such as a project's config/rbac, and their
// namespaces. Operators started by Run and Operator then have the permissions of the ServiceAccount
// among them instead of an administrator's, so that a missing rule fails the test. There must be
// exactly one ServiceAccount. RBAC may be used once.
func RBAC(paths ...string) Option {
	return func(o *options) { o.rbac = paths }
}

// Role gives Run and Operator the rights of the Roles and ClusterRoles in folders or files, such as
// the generated config/rbac/role.yaml, and no others, so that a missing rule fails the test. They
// act as the user [manifest.RoleUser], by impersonation. A Role without a namespace is in
// "default". Role and RBAC exclude each other: RBAC needs the ServiceAccount and the bindings too.
func Role(paths ...string) Option {
	return func(o *options) { o.role = paths }
}

// Scheme registers types for the Env's client, in addition to those of Kubernetes.
func Scheme(scheme *runtime.Scheme) Option {
	return func(o *options) { o.scheme = scheme }
}

// Nodes sets how pods run; the default is NodeNone. Groups describe simulated nodes, which replace
// the single one of NodeSimulated.
func Nodes(node Node, groups ...NodeGroup) Option {
	return func(o *options) { o.node, o.nodes = node, groups }
}

// NodeGroup describes simulated nodes that differ only in their names and zones.
type NodeGroup struct {
	// Count is the number of nodes.
	Count int `json:"count"`
	// Name is the first part of the nodes' names: name-1, name-2 and so on. "" means "node".
	Name string `json:"name,omitempty"`
	// Capacity replaces quantities of the default capacity: 64 CPUs, 256 GiB, 1000 pods.
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	Labels   map[string]string   `json:"labels,omitempty"`
	Taints   []corev1.Taint      `json:"taints,omitempty"`
	// Zones are the values of the label topology.kubernetes.io/zone, which the nodes get in turn.
	Zones []string `json:"zones,omitempty"`
	// Region is the value of the label topology.kubernetes.io/region.
	Region string `json:"region,omitempty"`
}

// Stages scripts simulated nodes and their pods by KWOK's Stages (kwok.x-k8s.io/v1alpha1) in
// folders or files. It needs [Nodes] with NodeSimulated.
func Stages(paths ...string) Option {
	return func(o *options) { o.stages = append(o.stages, paths...) }
}

// Workloads runs Kubernetes' own controllers of Deployments, StatefulSets, Jobs and other
// workloads, and of EndpointSlices. They start when the first such object exists. With
// NodeSimulated or NodeProcess, their pods run.
func Workloads() Option {
	return func(o *options) { o.workloads = true }
}

// Run runs an operator, or any other client, until the test ends. If it returns an error before
// that, the test fails.
func Run(run func(ctx context.Context, config *rest.Config) error) Option {
	return func(o *options) { o.run = append(o.run, run) }
}

// Operator runs the parts of an operator, as operator.Main does, until the test ends. Its webhooks
// are called if there is the option [Webhooks].
func Operator(parts ...operator.Part) Option {
	return Run(func(ctx context.Context, config *rest.Config) error {
		return operator.Run(ctx, operator.Config{REST: config, Webhooks: WebhookConfig(ctx)}, parts...)
	})
}

// Webhooks makes the control plane call the webhooks of operators in this process, at a port of
// the loopback address that the system chooses. The operators set their address and CA bundle in
// webhook configurations and CustomResourceDefinitions, and create missing webhook
// configurations, with the rights of an administrator: with [RBAC] and [Role], too. Use
// [Env.AwaitWebhooks] before writes that they must see.
//
// Webhooks also installs the webhook configurations in folders or files, such as config/webhook. It
// skips other objects there.
func Webhooks(paths ...string) Option {
	return func(o *options) { o.webhooks, o.hooks = true, append(o.hooks, paths...) }
}

type webhooksKey struct{}

// WebhookConfig returns how an operator in a function of [Run] serves webhooks:
//
//	operatortest.Run(func(ctx context.Context, config *rest.Config) error {
//		return operator.Run(ctx, operator.Config{REST: config, Webhooks: operatortest.WebhookConfig(ctx)}, parts...)
//	})
//
// It is the zero WebhookConfig if the Env was created without [Webhooks]. ctx is the function's
// context.
func WebhookConfig(ctx context.Context) manager.WebhookConfig {
	if r, ok := ctx.Value(webhooksKey{}).(*registrations); ok {
		return r.of()
	}
	return manager.WebhookConfig{}
}

// New starts a control plane that ends with the test. It fails the test on errors.
func New(t testing.TB, opts ...Option) *Env {
	t.Helper()
	return start(t, options{node: NodeNone}, opts)
}

// Fork starts a control plane with a copy of the current state of this one: objects, custom kinds
// and revision. Later writes are independent. The time it takes does not depend on the size of the
// state.
//
// The fork ends with t. It has the nodes, workloads, scheme and ServiceAccount of e unless opts
// override them; functions passed to Run run only in e. CRDs in opts are installed in addition. e
// must not have ended.
func (e *Env) Fork(t testing.TB, opts ...Option) *Env {
	t.Helper()
	o := e.made
	o.crds, o.rbac, o.role, o.run, o.hooks = nil, nil, nil, nil, nil
	o.fork = e.plane.ID
	return start(t, o, opts)
}

func start(t testing.TB, o options, opts []Option) *Env {
	t.Helper()
	for _, opt := range opts {
		opt(&o)
	}
	check := func(err error) {
		t.Helper()
		require.NoErrorf(t, err, "operatortest")
	}
	var manifests []manifest.Manifest
	var err error
	if len(o.crds) > 0 {
		manifests, err = manifest.Read(o.crds...)
		check(err)
	}
	if roles := os.Getenv(record.Roles); roles != "" && o.fork == "" {
		o.rbac, o.role = nil, []string{roles} // kelson rights --prove
	}
	if len(o.rbac) > 0 && len(o.role) > 0 {
		t.Fatalf("operatortest: the options RBAC and Role exclude each other")
	}
	if len(o.role) > 0 {
		roles, err := manifest.Role(o.role...)
		check(err)
		manifests, o.user = append(manifests, roles...), manifest.RoleUser
	}
	if len(o.rbac) > 0 {
		rbac, user, err := manifest.RBAC(o.rbac...)
		check(err)
		manifests, o.user = append(manifests, rbac...), user
	}
	if len(o.hooks) > 0 {
		hooks, err := manifest.Webhooks(o.hooks...)
		check(err)
		manifests = append(manifests, hooks...)
	}
	s, err := serverFor(o.node)
	check(err)
	created, ready, err := s.create(t.Context(), o, manifests)
	check(err)
	t.Cleanup(func() {
		if err := s.drop(created); err != nil {
			t.Errorf("operatortest: %v", err)
		}
	})
	config, err := created.config()
	check(err)
	c, err := client.New(client.Config{REST: config, Scheme: o.scheme, FieldOwner: "operatortest"})
	check(err)
	env := &Env{server: s, plane: created, client: c, made: o}
	if !ready {
		for _, m := range manifests {
			require.NoErrorf(t, c.Create(t.Context(), m.Object), "operatortest: install %s", m.File)
		}
		check(s.installed(t.Context(), created, o, manifests))
	}
	if o.webhooks {
		env.registrations = &registrations{registrar: c, changed: make(chan struct{})}
	}
	for _, run := range o.run {
		ctx, cancel := context.WithCancel(context.Background())
		if o.webhooks {
			ctx = context.WithValue(ctx, webhooksKey{}, env.registrations)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := run(ctx, env.OperatorRESTConfig()); err != nil && ctx.Err() == nil {
				t.Errorf("operatortest: Run returned an error: %v", err)
			}
		}()
		t.Cleanup(func() { cancel(); <-ended })
	}
	return env
}

// RESTConfig returns an administrator's client configuration, for client-go, controller-runtime or
// kelson.dev/operator.
func (e *Env) RESTConfig() *rest.Config {
	config, err := e.plane.config()
	if err != nil {
		panic(err) // unreachable: start has read it
	}
	return config
}

// OperatorRESTConfig returns the client configuration that Run and Operator get: with the rights of
// RBAC or Role, or an administrator's.
func (e *Env) OperatorRESTConfig() *rest.Config {
	config := e.RESTConfig()
	config.Impersonate.UserName = e.made.user
	record.Wrap(config)
	return config
}

// Client returns an administrator's client.
func (e *Env) Client() client.Client { return e.client }

// Kubeconfig writes an administrator's kubeconfig to a file that exists until t ends, and returns
// its path.
func (e *Env) Kubeconfig(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoErrorf(t, os.WriteFile(file, []byte(e.plane.Kubeconfig), 0o600), "operatortest: kubeconfig")
	return file
}

// Create creates an object and fills it with the server's response. The namespace of a namespaced
// object defaults to "default".
func (e *Env) Create(t testing.TB, obj client.Object) {
	t.Helper()
	if obj.GetNamespace() == "" && e.namespaced(obj) {
		obj.SetNamespace("default")
	}
	require.NoErrorf(t, e.client.Create(t.Context(), obj), "operatortest: create %s", obj.GetName())
}

// namespaced returns false for unknown kinds, too; the request then returns the error.
func (e *Env) namespaced(obj client.Object) bool {
	kind, err := client.KindOf(obj, e.client.Scheme())
	if err != nil {
		return false
	}
	mapping, err := e.client.Mapper().RESTMapping(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, kind.Version)
	return err == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

// Get reads the current state of an object.
func (e *Env) Get(t testing.TB, obj client.Object) {
	t.Helper()
	require.NoErrorf(t, e.client.Get(t.Context(), client.KeyOf(obj), obj), "operatortest: get %s", obj.GetName())
}

// Eventually calls holds every 10 milliseconds until it returns true. After timeout, it fails the
// test.
func (e *Env) Eventually(t testing.TB, timeout time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("operatortest: condition not met within %v", timeout)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
