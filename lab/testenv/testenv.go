// Package testenv runs a control plane per test, in the test's process: no ports, files or
// binaries, ready in milliseconds.
//
//	func TestRunsAfterThirtyDays(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			env := testenv.New(t, testenv.CRDs("../config/crd"), testenv.Nodes(controlplane.Simulated{}),
//				testenv.Operator(operator.For(NewAtReconciler)))
//			env.Create(t, atDueIn(30*24*time.Hour))
//			env.Settle(t)                     // wait until server, controllers and operator are idle
//			time.Sleep(31 * 24 * time.Hour)   // virtual
//			env.Settle(t)
//		})
//	}
//
// testenv also works outside a testing/synctest bubble, except for Settle; use [Env.Eventually]
// there.
//
// [Env.Fork] copies a prepared environment in O(1), however large it is:
//
//	base := testenv.New(t, testenv.CRDs("../config/crd"))
//	base.Create(t, quota)
//	for _, test := range tests {
//		t.Run(test.name, func(t *testing.T) {
//			env := base.Fork(t) // writes are not visible in base or in other forks
//		})
//	}
//
// [Env.Kubeconfig] opens a port and writes a file, for other programs. Package
// kelson.dev/operator/operatortest offers a similar API over the kelson binary, without this
// package's dependencies; it has no Settle, Plane or Log.
//
// Everything ends with the test. An Env may be used by several goroutines of its test.
package testenv

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/fastpath"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/loadbalancer"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/emulation"
	"kelson.dev/kubernetes/node/stage"
	"kelson.dev/kubernetes/scheduler"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest/manifest"
	"kelson.dev/operator/operatortest/record"
)

// Env is a running control plane with the objects and operators of its options.
type Env struct {
	plane   *controlplane.ControlPlane
	client  client.Client
	options options // the options it was created with, for its forks
	// network connects to webhooks in this process; nil without Webhooks.
	network *inprocess.Network
}

// Option configures an Env.
type Option func(*options)

type options struct {
	plane  controlplane.Config
	crds   []string
	scheme *runtime.Scheme
	run    []func(context.Context, *rest.Config) error
	rbac   []string
	role   []string
	user   string // the user that Run and Operator act as; "" means an administrator

	schedulerConfig string // the file of SchedulerConfig
	version         string // of EmulatedVersion

	workloads, noControllers bool
	controllers              []string // of Controllers
	loadBalancers            string   // the CIDRs of LoadBalancers

	stageFiles []string // files and folders of Stages
	stages     []*stage.Stage

	webhooks  bool   // of Webhooks
	hooks     *hooks // shared by forks; nil without Webhooks
	hookPaths []string
}

// CRDs installs the manifests in folders or files.
func CRDs(paths ...string) Option {
	return func(o *options) { o.crds = append(o.crds, paths...) }
}

// RBAC installs the RBAC manifests in folders or files, such as a project's config/rbac, and
// creates their namespaces. The manifests must contain exactly one ServiceAccount. Run and Operator
// then have its rights instead of an administrator's, so that a missing rule in a role fails the
// test. RBAC may be used once.
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

// Scheme sets the scheme of the Env's client; the default has Kubernetes' own types.
func Scheme(scheme *runtime.Scheme) Option {
	return func(o *options) { o.scheme = scheme }
}

// Nodes selects what runs pods; by default, nothing does. controlplane.Simulated{} is a single
// simulated node. Groups replace it:
//
//	testenv.Nodes(controlplane.Simulated{Groups: []simulatednodes.Group{
//		{Count: 3, Zones: []string{"a", "b", "c"}},
//		{Count: 1, Name: "gpu", Taints: …},
//	}})
//
// With simulated nodes, creating a Node with the annotation kwok.x-k8s.io/node=fake adds a node,
// and deleting a Node removes it. With Lease: controlplane.NodeLease, nodes renew Leases as in a
// cluster, and so can become unreachable.
func Nodes(node controlplane.Node) Option {
	return func(o *options) { o.plane.Node = node }
}

// Stages scripts simulated nodes and their pods by KWOK's Stages in folders or files; see
// docs/guides/nodes-that-fail.md. It needs [Nodes] with controlplane.Simulated.
func Stages(paths ...string) Option {
	return func(o *options) { o.stageFiles = append(o.stageFiles, paths...) }
}

// Stage adds Stages as Go values, like [Stages].
func Stage(stages ...stage.Stage) Option {
	return func(o *options) {
		for i := range stages {
			o.stages = append(o.stages, &stages[i])
		}
	}
}

// Workloads runs Kubernetes' own controllers of Deployments, StatefulSets, Jobs and other
// workloads, and of EndpointSlices. They start when the first such object exists. With [Nodes],
// their pods run.
func Workloads() Option {
	return func(o *options) { o.workloads = true }
}

// Controllers selects Kubernetes' controllers by name, as kube-controller-manager's --controllers
// does: NAME, -NAME or *. With "*" and "-replicaset-controller", for example, a test can run that
// controller as its operator.
func Controllers(names ...string) Option {
	return func(o *options) { o.controllers = names }
}

// SchedulerConfig configures the scheduler, which runs with [Workloads] or [Nodes], by a file that
// contains a KubeSchedulerConfiguration.
func SchedulerConfig(file string) Option {
	return func(o *options) { o.schedulerConfig = file }
}

// LoadBalancers gives Services of type LoadBalancer addresses of a CIDR such as 192.0.2.0/24, or of
// two CIDRs of different families separated by a comma. Nothing listens on them.
func LoadBalancers(cidr string) Option {
	return func(o *options) { o.loadBalancers = cidr }
}

// NoControllers omits the controllers that belong to kube-controller-manager in Kubernetes, also
// those of [Workloads] and [LoadBalancers]: see [controlplane.NoControllers].
func NoControllers() Option {
	return func(o *options) { o.noControllers = true }
}

// EmulatedVersion makes the control plane behave like a release of Kubernetes, "1.34" to "1.37";
// see docs/guides/envtest.md. The default is the environment variable KELSON_EMULATED_VERSION, or
// the latest. Only one release can be emulated in a process at a time: parallel tests must use the
// same.
func EmulatedVersion(release string) Option {
	return func(o *options) { o.version = release }
}

// Run starts an operator, or any other client of the API, after everything is installed, and
// cancels its context when the test ends. If run returns an error before that, the test fails.
func Run(run func(ctx context.Context, config *rest.Config) error) Option {
	return func(o *options) { o.run = append(o.run, run) }
}

// Operator runs the parts of an operator, as operator.Main does, until the test ends. Its webhooks
// open a port unless there is the option [Webhooks].
func Operator(parts ...operator.Part) Option {
	return Run(func(ctx context.Context, config *rest.Config) error {
		return operator.Run(ctx, operator.Config{REST: config, Webhooks: WebhookConfig(ctx)}, parts...)
	})
}

// Requests wraps the transport of all requests in process; see [controlplane.Config].
func Requests(wrap func(http.RoundTripper) http.RoundTripper) Option {
	return func(o *options) { o.plane.Requests = wrap }
}

// Log writes the control plane's log to the test's log.
func Log(t testing.TB) Option {
	return func(o *options) {
		o.plane.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// New starts a control plane that ends with the test. It fails the test on any error.
func New(t testing.TB, opts ...Option) *Env {
	t.Helper()
	return start(t, options{}, opts)
}

func start(t testing.TB, o options, opts []Option) *Env {
	t.Helper()
	for _, opt := range opts {
		opt(&o)
	}
	o.plane.NoFastPaths = o.plane.NoFastPaths || fastpath.DisabledByEnvironment()
	var err error
	if o.version == "" {
		o.plane.Version, err = emulation.FromEnvironment()
	} else {
		o.plane.Version, err = emulation.Parse(o.version)
	}
	require.NoErrorf(t, err, "testenv")
	if o.schedulerConfig != "" {
		if o.plane.Scheduler, err = scheduler.Load(o.schedulerConfig); err != nil {
			t.Fatalf("testenv: %v", err)
		}
	}
	if o.plane.Controllers, err = o.selectControllers(); err != nil {
		t.Fatalf("testenv: %v", err)
	}
	if o.plane.Node, err = o.node(t); err != nil {
		t.Fatalf("testenv: %v", err)
	}
	var network *inprocess.Network
	if o.webhooks {
		network = &inprocess.Network{}
		o.plane.DialWebhooks = dialWebhook(network)
		if o.hooks == nil {
			if o.hooks, err = newHooks(); err != nil {
				t.Fatalf("testenv: %v", err)
			}
		}
	}
	// Don't use the test's context: it ends before cleanups run, and operators must end before the
	// control plane.
	plane, err := controlplane.Start(context.Background(), o.plane)
	require.NoErrorf(t, err, "testenv")
	t.Cleanup(func() { plane.Stop(); letErrorsEnd() })
	c, err := client.New(client.Config{REST: plane.RESTConfig(), Scheme: o.scheme, FieldOwner: "testenv"})
	require.NoErrorf(t, err, "testenv")
	manifests, user, err := o.manifests()
	require.NoErrorf(t, err, "testenv")
	if user != "" {
		o.user = user
	}
	env := &Env{plane: plane, client: c, options: o, network: network}
	env.install(t, manifests)
	for _, run := range o.run {
		ctx, cancel := context.WithCancel(env.OperatorContext(context.Background()))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := run(ctx, env.OperatorRESTConfig()); err != nil && ctx.Err() == nil {
				t.Errorf("testenv: Run ended early: %v", err)
			}
		}()
		t.Cleanup(func() { cancel(); <-ended })
	}
	return env
}

// selectControllers returns the controllers of the options.
func (o *options) selectControllers() (controlplane.Controllers, error) {
	if o.noControllers {
		return controlplane.NoControllers{}, nil
	}
	selection, err := controlplane.ParseControllers(o.controllers)
	if err != nil {
		return nil, err
	}
	var pool []netip.Prefix
	if o.loadBalancers != "" {
		if pool, err = loadbalancer.ParsePool(o.loadBalancers); err != nil {
			return nil, err
		}
	}
	if o.workloads {
		return controlplane.AllControllers{Selection: selection, LoadBalancers: pool}, nil
	}
	return controlplane.ObjectControllers{Selection: selection, LoadBalancers: pool}, nil
}

// node returns what runs pods, with the Stages of the options.
func (o *options) node(t testing.TB) (controlplane.Node, error) {
	loaded, err := stage.Load(o.stageFiles...)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(o.stages, loaded)
	for _, s := range all {
		if _, err := stage.Compile(s); err != nil {
			return nil, err
		}
	}
	switch node := o.plane.Node.(type) {
	case controlplane.Simulated:
		node.Stages = slices.Concat(node.Stages, all)
		o.stages, o.stageFiles = nil, nil // forks have them already
		return node, nil
	case controlplane.Processes:
		node.Unconfined = true // a test can trust the pods that it creates
		if node.Dir == "" {
			node.Dir = t.TempDir()
		}
		if len(all) == 0 {
			return node, nil
		}
	case nil:
		if len(all) == 0 {
			return nil, nil
		}
	}
	return nil, errors.New("the options Stages and Stage need Nodes with controlplane.Simulated")
}

// Plane returns the control plane.
func (e *Env) Plane() *controlplane.ControlPlane { return e.plane }

// RESTConfig returns an administrator's client configuration, for client-go, controller-runtime or
// kelson.dev/operator.
func (e *Env) RESTConfig() *rest.Config { return e.plane.RESTConfig() }

// OperatorRESTConfig returns the client configuration that Run and Operator get: that of the
// ServiceAccount in the manifests of RBAC, of Role, or an administrator's.
func (e *Env) OperatorRESTConfig() *rest.Config {
	config := e.plane.RESTConfig()
	config.Impersonate.UserName = e.options.user
	record.Wrap(config)
	return config
}

// Client returns an administrator's client.
func (e *Env) Client() client.Client { return e.client }

// Create creates an object and updates obj with the server's response. If obj is namespaced and
// names no namespace, Create uses "default".
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
	require.NoErrorf(t, e.client.Create(t.Context(), obj), "testenv: create %s", obj.GetName())
}

// Get reads an object by its namespace and name, and replaces obj with the result.
func (e *Env) Get(t testing.TB, obj client.Object) {
	t.Helper()
	require.NoErrorf(t, e.client.Get(t.Context(), client.KeyOf(obj), obj), "testenv: get %s", obj.GetName())
}

// Settle waits until every goroutine of the bubble is blocked: all control plane components and
// operators are idle until time passes or the test acts. It works only inside synctest.Test.
func (e *Env) Settle(t testing.TB) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("testenv: Settle works inside synctest.Test only (%v); use Eventually in real time", p)
		}
	}()
	synctest.Wait()
}

// Eventually waits until holds returns true. It calls holds immediately and after every write to
// the control plane. After timeout, the test fails.
func (e *Env) Eventually(t testing.TB, timeout time.Duration, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout) // works in t.Cleanup, too
	defer cancel()
	for written := error(nil); ; {
		revision := e.plane.Store().Snapshot().Revision()
		switch {
		case holds():
			return
		case written != nil && ctx.Err() != nil:
			t.Fatalf("testenv: the condition is still false after %v", timeout)
		case written != nil:
			t.Fatalf("testenv: %v", written)
		}
		written = e.plane.Store().Await(ctx, revision, "")
	}
}

// manifests reads the manifests of CRDs and RBAC, and returns the user name of the ServiceAccount.
func (o *options) manifests() (all []manifest.Manifest, user string, err error) {
	if len(o.crds) > 0 {
		if all, err = manifest.Read(o.crds...); err != nil {
			return nil, "", err
		}
	}
	if roles := os.Getenv(record.Roles); roles != "" && o.plane.From == nil {
		o.rbac, o.role = nil, []string{roles} // kelson rights --prove
	}
	if len(o.rbac) > 0 && len(o.role) > 0 {
		return nil, "", errors.New("the options RBAC and Role exclude each other")
	}
	if len(o.role) > 0 {
		roles, err := manifest.Role(o.role...)
		if err != nil {
			return nil, "", err
		}
		all, user = append(all, roles...), manifest.RoleUser
	}
	if len(o.rbac) > 0 {
		var rbac []manifest.Manifest
		if rbac, user, err = manifest.RBAC(o.rbac...); err != nil {
			return nil, "", err
		}
		all = append(all, rbac...)
	}
	if len(o.hookPaths) > 0 {
		hooks, err := manifest.Webhooks(o.hookPaths...)
		if err != nil {
			return nil, "", err
		}
		all = append(all, hooks...)
	}
	return all, user, nil
}

func (e *Env) install(t testing.TB, manifests []manifest.Manifest) {
	t.Helper()
	for _, m := range manifests {
		require.NoErrorf(t, e.client.Create(t.Context(), m.Object), "testenv: install %s", m.File)
	}
}
