package operator_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/manager/kubeconfig"
)

// Labeler sets a label on every object.
type Labeler struct{ deps operator.Deps }

func (l *Labeler) Reconcile(ctx context.Context, node *corev1.Node) (operator.Result, error) {
	operator.Log(ctx).Info("looking at it", "version", node.Status.NodeInfo.KubeletVersion)
	return operator.Result{}, nil
}

func NewLabeler(deps operator.Deps) *Labeler { return &Labeler{deps} }

func ExampleMain() {
	operator.Main(operator.For(NewLabeler, operator.Filter(operator.GenerationChanged)))
}

// An operator with two flags: one sets the number of workers, the other changes the configuration.
func ExampleFlags() {
	var workers int
	var user string
	operator.Main(
		operator.Flags(func(set *flag.FlagSet) {
			set.IntVar(&workers, "workers", 4, "`number` of concurrent reconciles")
			set.StringVar(&user, "as", "", "`user` to act as")
		}),
		operator.Configure(func(cfg *operator.Config) error {
			cfg.REST.Impersonate.UserName = user
			return nil
		}),
		operator.Parts(func(*operator.Config) ([]operator.Part, error) {
			return []operator.Part{operator.For(NewLabeler, operator.Concurrency(workers))}, nil
		}),
	)
}

// All pods of a node, without a list of all pods.
func ExampleIndex() {
	podsOf := func(ctx context.Context, c operator.Client, node *corev1.Node) ([]*corev1.Pod, error) {
		return client.List[corev1.Pod](ctx, c, client.MatchingIndex{"node": node.Name})
	}
	operator.Main(
		operator.Index("node", func(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} }),
		operator.For(NewLabeler),
	)
	_ = podsOf
}

// Bucket and its reconciler: a bucket outside of the cluster for each Timer.
type Buckets struct{}

func (Buckets) Reconcile(ctx context.Context, timer *Timer) (operator.Result, error) {
	if timer.Status.Phase == "" {
		id := "…" // create the bucket
		timer.Status.Phase = id
		if err := operator.SaveStatus(ctx, timer); err != nil {
			// delete the bucket: no later reconcile can find it
			return operator.Result{}, err
		}
	}
	// configure the bucket: a crash from here on does not lose its id
	return operator.Result{}, nil
}

func ExampleSaveStatus() {
	operator.Main(operator.AddToScheme(addTimer), operator.For(func(operator.Client) Buckets { return Buckets{} }))
}

// Composition reconciles ConfigMaps that own objects of the kinds that they name.
type Composition struct{ operator.Deps }

func (c *Composition) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	gvk := schema.FromAPIVersionAndKind(cm.Data["apiVersion"], cm.Data["kind"])
	return operator.Result{}, c.WatchFor(ctx, operator.OwnsKind[metav1.PartialObjectMetadata](gvk))
}

// The watches begin and end with the objects that need them.
func ExampleDeps_watchFor() {
	operator.Main(operator.For(func(deps operator.Deps) *Composition { return &Composition{deps} }))
}

// PodLogs reads the log of pods, which a Client does not do.
type PodLogs struct{ operator.Deps }

func (p *PodLogs) Reconcile(ctx context.Context, pod *corev1.Pod) (operator.Result, error) {
	cluster, err := p.Cluster(ctx)
	if err != nil {
		return operator.Result{}, err
	}
	httpClient, err := cluster.HTTPClient()
	if err != nil {
		return operator.Result{}, err
	}
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s/log?tailLines=10", cluster.REST().Host, pod.Namespace, pod.Name)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return operator.Result{}, err
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return operator.Result{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	lines, err := io.ReadAll(resp.Body)
	operator.Log(ctx).Info("last lines", "log", string(lines))
	return operator.Result{}, err
}

func ExampleDeps_Cluster() {
	operator.Main(operator.For(func(deps operator.Deps) *PodLogs { return &PodLogs{deps} }))
}

// Tenants creates a namespace outside of the API for each ConfigMap, and removes it.
type Tenants struct{ operator.Deps }

func (t *Tenants) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	return operator.Result{}, createTenant(ctx, cm.Name)
}

// Finalize is called instead of Reconcile after the ConfigMap was deleted, until it returns no
// error and no RequeueAfter. The library adds and removes the finalizer.
func (t *Tenants) Finalize(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	gone, err := removeTenant(ctx, cm.Name)
	if err != nil || gone {
		return operator.Result{}, err
	}
	return operator.After(10 * time.Second), nil
}

func createTenant(context.Context, string) error         { return nil }
func removeTenant(context.Context, string) (bool, error) { return true, nil }

func ExampleFor_finalize() {
	operator.Main(operator.For(func(deps operator.Deps) *Tenants {
		return &Tenants{deps}
	}, operator.FinalizerName("example.com/tenant")))
}

// Three replicas that divide the nodes among them, and one of them that also reconciles ConfigMaps.
func ExampleSharded() {
	operator.Main( // run with --leader-elect
		operator.For(NewLabeler, operator.Sharded()),
		operator.For(func(deps operator.Deps) *Tenants { return &Tenants{deps} }),
	)
}

// One operator for all clusters whose kubeconfigs are in Secrets of the namespace fleet.
func ExampleProvider() {
	operator.Main(
		operator.For(NewLabeler), // operator.Request.Cluster is the name of the cluster
		operator.Provider(func(operator.Deps) manager.Provider {
			return kubeconfig.FromSecrets(kubeconfig.Config{Namespace: "fleet"})
		}),
	)
}

// A report once an hour, by the leader.
func ExampleBackground() {
	operator.Main(
		operator.For(NewLabeler),
		operator.Background(func(ctx context.Context, deps operator.Deps) error {
			for {
				nodes, err := client.List[corev1.Node](ctx, deps.Client)
				if err != nil {
					return err // ends the operator
				}
				deps.Log.Info("report", "nodes", len(nodes))
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(time.Hour):
				}
			}
		}),
	)
}
