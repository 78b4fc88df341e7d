package client_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest/apiserver"
)

// requests records the verb and the content type of each request.
type requests struct {
	mu   sync.Mutex
	sent []string
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet {
			kind := strings.TrimSuffix(strings.TrimPrefix(req.Header.Get("Content-Type"), "application/"), "+json")
			r.mu.Lock()
			r.sent = append(r.sent, strings.TrimSpace(req.Method+" "+strings.TrimSuffix(kind, "+yaml")))
			r.mu.Unlock()
		}
		return next.RoundTrip(req)
	})
}

func (r *requests) want(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Slicef(t, r.sent, want, "sent")
	r.sent = nil
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const (
	sentCreate, sentMessage, sentApply, sentTakeOver = "POST json", "POST vnd.kubernetes.protobuf", "PATCH apply-patch",
		"PATCH json-patch"
)

// An apply of a new object is sent as a create, and later applies have the same result as if it had
// been an apply.
func TestApplyOfNewStory(t *testing.T) {
	cfg := rest.CopyConfig(apiserver.For(t))
	sent := &requests{}
	cfg.Wrap(sent.wrap)
	c, err := client.New(client.Config{REST: cfg, FieldOwner: "founder"})
	must(t, err)
	other, err := client.New(client.Config{REST: apiServerAgain(cfg), FieldOwner: "other"})
	must(t, err)
	ctx := t.Context()
	ns := "apply-of-new-" + strings.ToLower(strings.ReplaceAll(time.Now().Format("150405.000"), ".", "-"))
	must(t, other.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	isNew := client.WriteOptions{New: true}
	configMap := func(name string, data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name,
			Labels: map[string]string{"app": name}}, Data: data}
	}
	managers := func(obj client.Object) []string {
		var all []string
		for _, e := range obj.GetManagedFields() {
			all = append(all, e.Manager+" "+string(e.Operation))
		}
		slices.Sort(all)
		return all
	}
	check := func(obj *corev1.ConfigMap, want map[string]string, wantManagers ...string) {
		t.Helper()
		live, err := client.Get[corev1.ConfigMap](ctx, other, client.KeyOf(obj))
		must(t, err)
		if !maps.Equal(live.Data, want) || !maps.Equal(obj.Data, want) {
			t.Errorf("the server has %v, the response was %v, want %v", live.Data, obj.Data, want)
		}
		assert.Slicef(t, managers(live), wantManagers, "managers")
	}

	t.Run("another write before the fields are transferred", func(t *testing.T) {
		cfg := rest.CopyConfig(cfg)
		write := sync.OnceFunc(func() {
			must(t, other.Patch(ctx, configMap("between", nil),
				client.RawPatch(types.MergePatchType, []byte(`{"data":{"c":"other's"}}`))))
		})
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("Content-Type") == string(types.JSONPatchType) {
					write()
				}
				return next.RoundTrip(r)
			})
		})
		c, err := client.New(client.Config{REST: cfg, FieldOwner: "founder"})
		must(t, err)
		must(t, c.Apply(ctx, configMap("between", map[string]string{"a": "1", "b": "1"}), isNew))
		obj := configMap("between", map[string]string{"a": "1"})
		must(t, c.Apply(ctx, obj))
		sent.want(t, sentCreate, sentApply, sentTakeOver, sentTakeOver, sentApply)
		check(obj, map[string]string{"a": "1", "c": "other's"}, "founder Apply", "other Update")
	})
	t.Run("omitted fields", func(t *testing.T) {
		obj := configMap("fields", map[string]string{"a": "1", "b": "1"})
		must(t, c.Apply(ctx, obj, isNew))
		sent.want(t, sentCreate)
		check(obj, map[string]string{"a": "1", "b": "1"}, "founder:apply Update")
		assert.Equalf(t, client.FieldManager(obj.ManagedFields[0]), "founder", "it is managed by")
		must(t, other.Apply(ctx, configMap("fields", map[string]string{"c": "other's"})))
		// With a changed and an additional field: the apply takes over its fields.
		obj = configMap("fields", map[string]string{"a": "2", "b": "1", "d": "1"})
		must(t, c.Apply(ctx, obj))
		sent.want(t, sentApply)
		check(obj, map[string]string{"a": "2", "b": "1", "c": "other's", "d": "1"}, "founder Apply",
			"founder:apply Update", "other Apply")
		// With fewer fields: the others of the create are removed.
		obj = configMap("fields", map[string]string{"a": "2"})
		obj.Labels = nil
		must(t, c.Apply(ctx, obj))
		sent.want(t, sentApply, sentTakeOver, sentApply)
		check(obj, map[string]string{"a": "2", "c": "other's"}, "founder Apply", "other Apply")
		if len(obj.Labels) != 1 { // the label is also owned by the other manager
			t.Errorf("labels %v", obj.Labels)
		}
		must(t, c.Apply(ctx, configMap("fields", nil)))
		sent.want(t, sentApply)
	})
	t.Run("the object already exists", func(t *testing.T) {
		must(t, other.Apply(ctx, configMap("there", map[string]string{"a": "other's"})))
		obj := configMap("there", map[string]string{"b": "1"})
		must(t, c.Apply(ctx, obj, isNew))
		sent.want(t, sentMessage, sentApply)
		check(obj, map[string]string{"a": "other's", "b": "1"}, "founder Apply", "other Apply")
	})
	t.Run("no conflict with the client's own create", func(t *testing.T) {
		must(t, c.Apply(ctx, configMap("conflict", map[string]string{"a": "1"}), isNew))
		sent.want(t, sentMessage)
		obj := configMap("conflict", map[string]string{"a": "2"})
		if err := c.Apply(ctx, obj, client.Unforced, client.DryRunAll); !apierrors.IsConflict(err) {
			t.Errorf("a dry run: %v", err)
		}
		sent.want(t, sentApply)
		must(t, c.Apply(ctx, obj, client.Unforced))
		sent.want(t, sentApply, sentTakeOver, sentApply)
		check(obj, map[string]string{"a": "2"}, "founder Apply")
		err := other.Apply(ctx, configMap("conflict", map[string]string{"a": "3"}), client.Unforced)
		if !apierrors.IsConflict(err) {
			t.Errorf("an apply by another manager: %v", err)
		}
		err = c.Apply(ctx, configMap("unforced", map[string]string{"a": "1"}), isNew, client.Unforced)
		must(t, err)
		sent.want(t, sentApply)
	})
	t.Run("an apply of an object that was deleted", func(t *testing.T) {
		obj := configMap("was", map[string]string{"a": "1"})
		obj.UID = "5b0f1bd4-8f4b-4b77-8f0d-0c0ffee0c0de"
		if err := c.Apply(ctx, obj, isNew); !apierrors.IsConflict(err) {
			t.Errorf("error %v", err)
		}
		sent.want(t, sentApply)
	})
	t.Run("a document in YAML", func(t *testing.T) {
		obj := configMap("yaml", nil)
		must(t, c.Patch(ctx, obj, client.RawPatch(types.ApplyPatchType,
			[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata: {a: '1'}\n")),
			client.WriteOptions{New: true, Force: new(true)}))
		sent.want(t, sentApply)
		check(obj, map[string]string{"a": "1"}, "founder Apply")
	})
	t.Run("unknown fields", func(t *testing.T) {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"data": map[string]any{"a": "1"}, "dtaa": map[string]any{}}}
		obj.SetNamespace(ns)
		obj.SetName("unknown")
		err := c.Apply(ctx, obj, isNew)
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "dtaa"`) {
			t.Errorf("error %v", err)
		}
		sent.want(t, sentCreate)
	})
	t.Run("dry run", func(t *testing.T) {
		obj := configMap("dry", map[string]string{"a": "1"})
		must(t, c.Apply(ctx, obj, isNew, client.DryRunAll))
		sent.want(t, sentMessage)
		assert.Equalf(t, obj.Data["a"], "1", "answer %v", obj)
		if _, err := client.Get[corev1.ConfigMap](ctx, other, client.KeyOf(obj)); !apierrors.IsNotFound(err) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("defaults", func(t *testing.T) {
		deployment := func(name, image string, labels map[string]string) *appsv1.Deployment {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels}}
			d.Spec.Replicas = new(int32)
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
			d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
			d.Spec.Template.Spec.Containers = []corev1.Container{
				{Name: "main", Image: image, Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}
			return d
		}
		must(t, c.Apply(ctx, deployment("first", "image:1", map[string]string{"tier": "front"}), isNew))
		sent.want(t, sentMessage)
		must(t, c.Apply(ctx, deployment("second", "image:1", nil), isNew))
		sent.want(t, sentApply)
		d := deployment("first", "image:2", nil)
		must(t, c.Apply(ctx, d))
		sent.want(t, sentApply, sentTakeOver, sentApply)
		main := d.Spec.Template.Spec.Containers[0]
		if d.Labels["tier"] != "" || main.Image != "image:2" || *d.Spec.ProgressDeadlineSeconds != 600 ||
			main.Ports[0].Protocol != corev1.ProtocolTCP {
			t.Errorf("it is %+v", d)
		}
		assert.Equalf(t, d.Generation, 2, "the generation")
		if got := managers(d); slices.Contains(got, "founder:apply Update") {
			t.Errorf("managers %q", got)
		}
	})
}

// apiServerAgain returns the configuration of the same server without the wrapper of its transport.
func apiServerAgain(cfg *rest.Config) *rest.Config {
	again := rest.CopyConfig(cfg)
	again.WrapTransport = nil
	return again
}
