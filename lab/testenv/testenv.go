// Package testenv gives a test a control plane of its own, in the test's process: no ports, files or binaries, ready in milliseconds.
//
//	func TestRunsAfterThirtyDays(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			env := testenv.New(t, testenv.CRDs("../config/crd"), testenv.Nodes(controlplane.NodeSimulated),
//				testenv.Operator(operator.For(NewAtReconciler)))
//			env.Create(t, atDueIn(30*24*time.Hour))
//			env.Settle(t)                     // server, controllers and operator have nothing left to do now
//			time.Sleep(31 * 24 * time.Hour)   // virtual
//			env.Settle(t)
//		})
//	}
//
// It works outside a testing/synctest bubble, too, except for Settle; there [Env.Eventually] waits for what events bring.
//
// What several tests need to begin with is prepared once, and each gets a copy, in O(1) whatever it holds:
//
//	base := testenv.New(t, testenv.CRDs("../config/crd"))
//	base.Create(t, quota)
//	for _, test := range tests {
//		t.Run(test.name, func(t *testing.T) {
//			env := base.Fork(t) // nothing that is written here is seen in base, or in another fork
//		})
//	}
//
// [Env.Kubeconfig] lets other programs in: only then is there a file and a port.
//
// Everything ends with the test. An Env may be used by several goroutines of its test.
package testenv

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/fastpath"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest/manifest"
)

// Env is a running control plane with what the options added to it.
type Env struct {
	plane  *controlplane.ControlPlane
	client client.Client
	made   options // what it was made with, for its forks
}

// Option changes what New makes.
type Option func(*options)

type options struct {
	plane  controlplane.Config
	crds   []string
	scheme *runtime.Scheme
	run    []func(context.Context, *rest.Config) error
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

// Nodes says what runs pods; the default is controlplane.NodeNone.
func Nodes(node controlplane.Node) Option {
	return func(o *options) { o.plane.Node = node }
}

// Workloads makes pods of Deployments, StatefulSets, Jobs and their like, and endpoints of Services, by Kubernetes' own controllers. They
// start with the first such object. With [Nodes], the pods run.
func Workloads() Option {
	return func(o *options) { o.plane.Workloads = true }
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

// Log writes what the control plane logs to the test's log.
func Log(t testing.TB) Option {
	return func(o *options) {
		o.plane.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// New starts a control plane that ends with the test. It fails the test when something is wrong.
func New(t testing.TB, opts ...Option) *Env {
	t.Helper()
	return start(t, options{plane: controlplane.Config{NodeLease: -1}}, opts)
}

func start(t testing.TB, o options, opts []Option) *Env {
	t.Helper()
	for _, opt := range opts {
		opt(&o)
	}
	o.plane.NoFastPaths = o.plane.NoFastPaths || fastpath.DisabledByEnvironment()
	o.plane.NodeUnconfined = true // pods are the test's own, and may use its files
	if o.plane.Node == controlplane.NodeProcess && o.plane.NodeDir == "" {
		o.plane.NodeDir = t.TempDir()
	}
	// Not the test's context: that ends before cleanups run, and operators end before the control plane.
	plane, err := controlplane.Start(context.Background(), o.plane)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(plane.Stop)
	c, err := client.New(client.Config{REST: plane.RESTConfig(), Scheme: o.scheme, FieldOwner: "testenv"})
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	manifests, user, err := o.manifests()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	if user != "" {
		o.user = user
	}
	env := &Env{plane: plane, client: c, made: o}
	env.install(t, manifests)
	for _, run := range o.run {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			config := plane.RESTConfig()
			config.Impersonate.UserName = o.user
			if err := run(ctx, config); err != nil && ctx.Err() == nil {
				t.Errorf("testenv: the operator ended: %v", err)
			}
		}()
		t.Cleanup(func() { cancel(); <-ended })
	}
	return env
}

// Plane is the control plane itself.
func (e *Env) Plane() *controlplane.ControlPlane { return e.plane }

// RESTConfig is an administrator's client configuration, for client-go, controller-runtime or kelson.dev/operator.
func (e *Env) RESTConfig() *rest.Config { return e.plane.RESTConfig() }

// Client is an administrator's client.
func (e *Env) Client() client.Client { return e.client }

// Create creates an object, in the namespace "default" if it says none and needs one, and fills it with the server's answer.
func (e *Env) Create(t testing.TB, obj client.Object) {
	t.Helper()
	if obj.GetNamespace() == "" {
		if kind, err := client.KindOf(obj, e.client.Scheme()); err == nil {
			res, ok := e.plane.Registry().Current().ByKind(kind.GroupKind())
			if ok && res.Namespaced {
				obj.SetNamespace("default")
			}
		}
	}
	if err := e.client.Create(t.Context(), obj); err != nil {
		t.Fatalf("testenv: create %s: %v", obj.GetName(), err)
	}
}

// Get reads an object anew.
func (e *Env) Get(t testing.TB, obj client.Object) {
	t.Helper()
	if err := e.client.Get(t.Context(), client.KeyOf(obj), obj); err != nil {
		t.Fatalf("testenv: get %s: %v", obj.GetName(), err)
	}
}

// Settle returns when nothing is left to do at this moment: every goroutine of the bubble waits for time to pass or for the test.
func (e *Env) Settle(t testing.TB) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("testenv: Settle works inside synctest.Test only (%v); use Eventually in real time", p)
		}
	}()
	synctest.Wait()
}

// Eventually waits until holds says so, looking again after every write to the control plane; the test fails after timeout.
func (e *Env) Eventually(t testing.TB, timeout time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		cursor, err := e.plane.Store().Watch("", e.plane.Store().Snapshot().Revision())
		if err != nil {
			t.Fatalf("testenv: %v", err)
		}
		if holds() {
			return
		}
		select {
		case <-cursor.Ready():
		case <-deadline.C:
			if holds() {
				return
			}
			t.Fatalf("testenv: it does not hold after %v", timeout)
		}
	}
}

// manifests reads what CRDs and RBAC name, and finds the user of the ServiceAccount.
func (o *options) manifests() (all []manifest.Manifest, user string, err error) {
	if len(o.crds) > 0 {
		if all, err = manifest.Read(o.crds...); err != nil {
			return nil, "", err
		}
	}
	if len(o.rbac) > 0 {
		var rbac []manifest.Manifest
		if rbac, user, err = manifest.RBAC(o.rbac...); err != nil {
			return nil, "", err
		}
		all = append(all, rbac...)
	}
	return all, user, nil
}

func (e *Env) install(t testing.TB, manifests []manifest.Manifest) {
	t.Helper()
	for _, m := range manifests {
		if err := e.client.Create(t.Context(), m.Object); err != nil {
			t.Fatalf("testenv: install %s: %v", m.File, err)
		}
	}
}
