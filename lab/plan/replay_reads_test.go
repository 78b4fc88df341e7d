package plan_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/history"
	"kelson.dev/lab/replay"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// vault gives each ConfigMap that has the label app a Secret.
type vault struct {
	operator.Client
	password string
}

func (r *vault) Reconcile(ctx context.Context, app *corev1.ConfigMap) (operator.Result, error) {
	if app.Labels["app"] == "" {
		return operator.Result{}, nil
	}
	_, err := operator.Apply(ctx, r.Client, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: app.Name},
		Data:       map[string][]byte{"password": []byte(r.password)},
	})
	return operator.Result{}, err
}

func runVault(password string, opts ...operator.Option) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		return operator.Run(ctx, operator.Config{REST: config, Log: slog.New(slog.DiscardHandler)},
			operator.Name("vault"),
			operator.For(func(c operator.Client) *vault {
				return &vault{c, password}
			}, append(opts, operator.Owns[corev1.Secret]())...))
	}
}

// recorded returns a file in which a recorder has recorded an app of vault.
func recorded(t *testing.T, secrets bool) *history.History {
	file := filepath.Join(t.TempDir(), "test.history")
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(store.Config{})
		must(t, err)
		plane, err := controlplane.Start(t.Context(), controlplane.Config{Store: s})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		to, err := os.Create(file)
		must(t, err)
		defer to.Close()
		w, err := history.NewWriter(to)
		must(t, err)
		go func() {
			r := &history.Recorder{Config: plane.RESTConfig(), To: w, Secrets: secrets, Log: func(error) {}}
			ended <- r.Run(ctx)
		}()
		go func() { ended <- runVault("one")(ctx, plane.RESTConfig()) }()
		c, err := client.New(client.Config{REST: plane.RESTConfig(), FieldOwner: "kubectl-edit"})
		must(t, err)
		time.Sleep(time.Minute)
		must(t, c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web",
			Labels: map[string]string{"app": "yes"}}}))
		time.Sleep(time.Minute)
		cancel()
		<-ended
		<-ended
		must(t, w.Flush())
		plane.Stop()
		must(t, s.Close())
	})
	h, err := history.Open(file)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

// If the values of Secrets were not recorded, they do not diverge.
func TestReplayWithoutSecrets(t *testing.T) {
	for _, secrets := range []bool{false, true} {
		result, err := replayOf(t, replay.Config{History: recorded(t, secrets), Managers: []string{"vault"},
			Operator: runVault("two")})
		must(t, err)
		if diverges := len(result.Divergences) > 0; diverges != secrets || result.Objects != 1 {
			t.Errorf("with values of Secrets recorded: %v: %+v", secrets, result)
		}
	}
}

// An operator that cannot read a kind does nothing, so the result names that kind.
func TestReplayWithoutAKind(t *testing.T) {
	kind := operator.OwnsKind[unstructured.Unstructured](schema.GroupVersionKind{Group: "example.com", Version: "v1",
		Kind: "Widget"})
	result, err := replayOf(t, replay.Config{History: recorded(t, true), Managers: []string{"vault"},
		Operator: runVault("one", kind)})
	must(t, err)
	if !slices.ContainsFunc(result.Notes, func(n string) bool {
		return n == "the operator could not read /apis/example.com/v1: 404 Not Found"
	}) {
		t.Errorf("%+v", result)
	}
}
