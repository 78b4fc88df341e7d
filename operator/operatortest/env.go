package operatortest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest/manifest"
)

// Env is a control plane with what the options added to it.
type Env struct {
	server *server
	plane  *plane
	client client.Client
	made   options // what it was made with, for its forks
}

// Node is a way to run pods.
type Node string

const (
	// NodeNone runs no pods: they stay Pending.
	NodeNone Node = "none"
	// NodeSimulated lets pods go through their life by their spec, and runs nothing.
	NodeSimulated Node = "simulated"
	// NodeProcess runs the containers' commands as processes of this machine, with the rights of this process.
	NodeProcess Node = "process"
)

// Option changes what New makes.
type Option func(*options)

type options struct {
	crds   []string
	scheme *runtime.Scheme
	node   Node
	run    []func(context.Context, *rest.Config) error
	fork   string // id of the plane to begin with
	rbac   []string
	user   string // that Run and Operator act as; "" is an administrator
}

// CRDs installs the manifests in folders or files.
func CRDs(paths ...string) Option {
	return func(o *options) { o.crds = append(o.crds, paths...) }
}

// RBAC installs the RBAC manifests in folders or files, such as a project's config/rbac, and their
// namespaces. What Run and Operator start then has the rights of the ServiceAccount among them instead
// of an administrator's, so a rule that is missing in a role fails the test. There must be exactly one
// ServiceAccount. RBAC may be given once.
func RBAC(paths ...string) Option {
	return func(o *options) { o.rbac = paths }
}

// Scheme makes the Env's client know more types than those of Kubernetes.
func Scheme(scheme *runtime.Scheme) Option {
	return func(o *options) { o.scheme = scheme }
}

// Nodes says what runs pods; the default is NodeNone.
func Nodes(node Node) Option {
	return func(o *options) { o.node = node }
}

// Run runs an operator, or anything else that works against the API, until the test ends. If it returns an error before, the test fails.
func Run(run func(ctx context.Context, config *rest.Config) error) Option {
	return func(o *options) { o.run = append(o.run, run) }
}

// Operator runs the parts of an operator, as operator.Main does, until the test ends.
func Operator(parts ...operator.Part) Option {
	return Run(func(ctx context.Context, config *rest.Config) error {
		return operator.Run(ctx, operator.Config{REST: config}, parts...)
	})
}

// New gets a control plane that ends with the test. It fails the test when something is wrong.
func New(t testing.TB, opts ...Option) *Env {
	t.Helper()
	return start(t, options{node: NodeNone}, opts)
}

// Fork gets a control plane that begins with the present state of this one: its objects, its custom kinds, its revision. Writes in one are not seen in
// the other. It takes the same time whatever the state holds.
//
// The fork ends with t. It has the nodes, the scheme and the ServiceAccount of e unless opts say otherwise; what was given to Run runs in e alone. CRDs of opts
// are installed beside those that are there. e must not have ended.
func (e *Env) Fork(t testing.TB, opts ...Option) *Env {
	t.Helper()
	o := e.made
	o.crds, o.rbac, o.run = nil, nil, nil
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
		if err != nil {
			t.Fatalf("operatortest: %v", err)
		}
	}
	var manifests []manifest.Manifest
	var err error
	if len(o.crds) > 0 {
		manifests, err = manifest.Read(o.crds...)
		check(err)
	}
	if len(o.rbac) > 0 {
		rbac, user, err := manifest.RBAC(o.rbac...)
		check(err)
		manifests, o.user = append(manifests, rbac...), user
	}
	s, err := serverFor(o.node)
	check(err)
	made, ready, err := s.create(t.Context(), o, manifests)
	check(err)
	t.Cleanup(func() {
		if err := s.drop(made); err != nil {
			t.Errorf("operatortest: %v", err)
		}
	})
	config, err := made.config()
	check(err)
	c, err := client.New(client.Config{REST: config, Scheme: o.scheme, FieldOwner: "operatortest"})
	check(err)
	env := &Env{server: s, plane: made, client: c, made: o}
	if !ready {
		for _, m := range manifests {
			if err := c.Create(t.Context(), m.Object); err != nil {
				t.Fatalf("operatortest: install %s: %v", m.File, err)
			}
		}
		check(s.installed(t.Context(), made, o, manifests))
	}
	runConfig := rest.CopyConfig(config)
	runConfig.Impersonate.UserName = o.user
	for _, run := range o.run {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := run(ctx, rest.CopyConfig(runConfig)); err != nil && ctx.Err() == nil {
				t.Errorf("operatortest: the operator ended: %v", err)
			}
		}()
		t.Cleanup(func() { cancel(); <-ended })
	}
	return env
}

// RESTConfig is an administrator's client configuration, for client-go, controller-runtime or kelson.dev/operator.
func (e *Env) RESTConfig() *rest.Config {
	config, err := e.plane.config()
	if err != nil {
		panic(err) // it was read before
	}
	return config
}

// Client is an administrator's client.
func (e *Env) Client() client.Client { return e.client }

// Kubeconfig writes an administrator's kubeconfig to a file that is there until t ends, and returns its path.
func (e *Env) Kubeconfig(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(e.plane.Kubeconfig), 0o600); err != nil {
		t.Fatalf("operatortest: kubeconfig: %v", err)
	}
	return file
}

// Create creates an object, in the namespace "default" if it says none and needs one, and fills it with the server's answer.
func (e *Env) Create(t testing.TB, obj client.Object) {
	t.Helper()
	if obj.GetNamespace() == "" && e.namespaced(obj) {
		obj.SetNamespace("default")
	}
	if err := e.client.Create(t.Context(), obj); err != nil {
		t.Fatalf("operatortest: create %s: %v", obj.GetName(), err)
	}
}

// namespaced is false for kinds that are not known, too: the request will say so.
func (e *Env) namespaced(obj client.Object) bool {
	kind, err := client.KindOf(obj, e.client.Scheme())
	if err != nil {
		return false
	}
	mapping, err := e.client.Mapper().RESTMapping(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, kind.Version)
	return err == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

// Get reads an object anew.
func (e *Env) Get(t testing.TB, obj client.Object) {
	t.Helper()
	if err := e.client.Get(t.Context(), client.KeyOf(obj), obj); err != nil {
		t.Fatalf("operatortest: get %s: %v", obj.GetName(), err)
	}
}

// Eventually waits until holds says so, looking again every 10 milliseconds; the test fails after timeout.
func (e *Env) Eventually(t testing.TB, timeout time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("operatortest: it does not hold after %v", timeout)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
