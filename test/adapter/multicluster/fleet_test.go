package multicluster

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/providers/kubeconfig"

	"kelson.dev/operator/adapter"
	"kelson.dev/operator/operatortest"
)

// A controller of multicluster-runtime works on the adapter's manager and clusters. Its provider
// adds a cluster for each Secret with a kubeconfig. In each cluster, the controller copies
// ConfigMaps. After each copy it reads and lists the copies. These reads must show the preceding
// write, which controller-runtime's own cache does not guarantee.
func TestFleet(t *testing.T) {
	if os.Getenv("KELSON") == "" {
		t.Skip("SKIPPED: needs a control plane: set KELSON to a kelson binary")
	}
	hub := operatortest.New(t)
	members := map[string]*operatortest.Env{"east": operatortest.New(t), "west": operatortest.New(t)}

	local, err := adapter.NewManager(hub.RESTConfig(), ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	must(t, err)
	provider := kubeconfig.New(kubeconfig.Options{Namespace: "default",
		ClusterOptions: []cluster.Option{adapter.ClusterOption}})
	m, err := mcmanager.WithMultiCluster(local, provider)
	must(t, err)
	must(t, provider.SetupWithManager(t.Context(), m))
	c := &counter{manager: m, stale: map[string]int{}, done: map[string]int{}}
	must(t, mcbuilder.ControllerManagedBy(m).Named("counter").For(&corev1.ConfigMap{}).
		Complete(mcreconcile.Func(c.Reconcile)))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	defer func() {
		cancel()
		must(t, <-ended)
	}()

	for name, env := range members {
		env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "source"}})
		hub.Create(t, kubeconfigSecret(t, name, env))
	}
	hub.Eventually(t, time.Minute, func() bool { return c.count("east") == rounds && c.count("west") == rounds })
	for name := range members {
		if c.stale[name] != 0 {
			t.Errorf("%s: %d reads did not show the write before them", name, c.stale[name])
		}
	}

	// After the deletion of its Secret, a cluster is no longer reconciled; the other one still is.
	must(t, hub.Client().Delete(t.Context(), kubeconfigSecret(t, "east", members["east"])))
	hub.Eventually(t, time.Minute, func() bool {
		_, err := provider.Get(ctx, "east")
		return err != nil
	})
	for _, env := range members {
		env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "second"}})
	}
	hub.Eventually(t, time.Minute, func() bool { return c.count("west") == 2*rounds })
	if got := c.count("east"); got != rounds {
		t.Errorf("east: %d rounds after its Secret was deleted, want %d", got, rounds)
	}
}

// rounds is the number of copies that the controller makes of each ConfigMap.
const rounds = 20

// counter makes rounds copies of each ConfigMap that is not a copy.
type counter struct {
	manager mcmanager.Manager

	mu sync.Mutex
	// by cluster: copies, and reads that did not show the preceding write
	done, stale map[string]int
}

func (c *counter) count(cluster string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done[cluster]
}

func (c *counter) Reconcile(ctx context.Context, req mcreconcile.Request) (ctrl.Result, error) {
	member, err := c.manager.GetCluster(ctx, req.ClusterName)
	if err != nil {
		return ctrl.Result{}, err
	}
	source := &corev1.ConfigMap{}
	if err := member.GetClient().Get(ctx, req.NamespacedName, source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Namespace != "default" || source.Labels["copy-of"] != "" || source.Name == "kube-root-ca.crt" {
		return ctrl.Result{}, nil
	}
	copies := &corev1.ConfigMapList{}
	for i := range rounds {
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: source.Namespace, Name: fmt.Sprintf("%s-%d", source.Name, i),
			Labels: map[string]string{"copy-of": source.Name},
		}}
		if err := member.GetClient().Create(ctx, made); client.IgnoreAlreadyExists(err) != nil {
			return ctrl.Result{}, err
		} else if err != nil {
			continue // a later reconcile of the same object
		}
		getErr := member.GetClient().Get(ctx, client.ObjectKeyFromObject(made), &corev1.ConfigMap{})
		listErr := member.GetClient().List(ctx, copies, client.InNamespace(source.Namespace),
			client.MatchingLabels{"copy-of": source.Name})
		if listErr != nil {
			return ctrl.Result{}, listErr
		}
		c.mu.Lock()
		c.done[req.ClusterName.String()]++
		if getErr != nil || len(copies.Items) != i+1 {
			c.stale[req.ClusterName.String()]++
		}
		c.mu.Unlock()
	}
	return ctrl.Result{}, nil
}

// kubeconfigSecret returns the Secret with which the provider adds a cluster.
func kubeconfigSecret(t *testing.T, name string, env *operatortest.Env) *corev1.Secret {
	content, err := os.ReadFile(env.Kubeconfig(t))
	must(t, err)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Labels: map[string]string{kubeconfig.DefaultKubeconfigSecretLabel: "true"}},
		Data: map[string][]byte{kubeconfig.DefaultKubeconfigSecretKey: content},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
