package operator_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/reconcile"
)

// The object is created if it does not exist, updated only if something changed, and owned by the
// reconciled object.
func TestCreateOrUpdate(t *testing.T) {
	server := apitest.New()
	c, err := client.New(client.Config{REST: server.REST()})
	must(t, err)
	owner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "owner", UID: "uid-of-owner"}}
	inReconcile := reconcile.WithObject(t.Context(), owner)
	writes := func() (n int) {
		for _, r := range server.Requests() {
			if !strings.HasPrefix(r, "GET") {
				n++
			}
		}
		return n
	}
	child := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	data := func(cm *corev1.ConfigMap, value string) func() error {
		return func() error { cm.Data = map[string]string{"a": value}; return nil }
	}
	for n, step := range []struct {
		value  string
		want   operator.Outcome
		writes int
	}{{"1", operator.Created, 1}, {"1", operator.Unchanged, 1}, {"2", operator.Updated, 2},
		{"2", operator.Unchanged, 2}} {
		cm := child("child")
		got, err := operator.CreateOrUpdate(inReconcile, c, cm, data(cm, step.value))
		if err != nil || got != step.want || writes() != step.writes || cm.Data["a"] != step.value ||
			cm.ResourceVersion == "" {
			t.Errorf("%d: %s %v after %d writes: %+v", n, got, err, writes(), cm)
		}
		if ref := metav1.GetControllerOf(cm); ref == nil || ref.UID != owner.UID || ref.Kind != "Pod" ||
			cm.Namespace != "default" || len(cm.OwnerReferences) != 1 {
			t.Errorf("%d: in %q, owned by %+v", n, cm.Namespace, cm.OwnerReferences)
		}
	}

	// Fields that the function does not set are preserved.
	existing := child("child")
	must(t, c.Get(t.Context(), client.Key{Namespace: "default", Name: "child"}, existing))
	existing.Labels = map[string]string{"others": "were here"}
	must(t, c.Update(t.Context(), existing))
	cm := child("child")
	if got, err := operator.CreateOrUpdate(inReconcile, c, cm, data(cm, "3")); err != nil || got != operator.Updated ||
		cm.Labels["others"] != "were here" {
		t.Errorf("%s %v %v", got, err, cm.Labels)
	}

	// Outside of a reconcile, the object does not get an owner or a namespace.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	if got, err := operator.CreateOrUpdate(t.Context(), c, node, func() error {
		node.Spec.Unschedulable = true
		return nil
	}); err != nil || got != operator.Created || node.OwnerReferences != nil || node.Namespace != "" {
		t.Errorf("%s %v %+v", got, err, node)
	}
	before := writes()
	broken := errors.New("broken")
	another := reconcile.WithObject(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "another", UID: "uid-of-another"}})
	for name, tt := range map[string]struct {
		ctx  context.Context
		cm   *corev1.ConfigMap
		set  func(*corev1.ConfigMap) error
		want string
	}{
		"no name":   {inReconcile, child(""), func(*corev1.ConfigMap) error { return nil }, "it has no name"},
		"set fails": {inReconcile, child("child"), func(*corev1.ConfigMap) error { return broken }, "broken"},
		"renamed": {inReconcile, child("child"), func(cm *corev1.ConfigMap) error {
			cm.Name = "other"
			return nil
		}, "set must not change its name: it is now default/other"},
		"owned by another": {another, child("child"), func(*corev1.ConfigMap) error {
			return nil
		}, "it is already controlled by Pod owner"},
	} {
		got, err := operator.CreateOrUpdate(tt.ctx, c, tt.cm, func() error { return tt.set(tt.cm) })
		if err == nil || got != operator.Unchanged || !strings.Contains(err.Error(), tt.want) ||
			!strings.HasPrefix(err.Error(), "create or update ConfigMap") {
			t.Errorf("%s: %s %v", name, got, err)
		}
	}
	if n := writes(); n != before {
		t.Errorf("%d writes that should not be", n-before)
	}
}

// An object that is applied or updated in its own reconcile does not become its own owner, and
// keeps the controller that it has.
func TestOwnObject(t *testing.T) {
	server := apitest.New()
	c, err := client.New(client.Config{REST: server.REST()})
	must(t, err)
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	must(t, c.Create(t.Context(), stored))
	for _, owners := range [][]metav1.OwnerReference{nil,
		{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "uid-of-p", Controller: new(true)}}} {
		stored.OwnerReferences = owners
		must(t, c.Update(t.Context(), stored))
		ctx := reconcile.WithObject(t.Context(), stored.DeepCopy())
		for _, namespace := range []string{"", "default"} {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
			got, err := operator.CreateOrUpdate(ctx, c, cm, func() error {
				cm.Data = map[string]string{"in": namespace}
				return nil
			})
			if err != nil || got != operator.Updated || len(cm.OwnerReferences) != len(owners) {
				t.Errorf("%s %v, owned by %+v", got, err, cm.OwnerReferences)
			}
			cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a",
				OwnerReferences: owners}}
			if cm, err = operator.Apply(ctx, c, cm); err != nil || len(cm.OwnerReferences) != len(owners) {
				t.Errorf("%v, owned by %+v", err, cm.OwnerReferences)
			}
			stored = cm
		}
	}

	// An object of another kind with the same name is owned.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if pod, err = operator.Apply(reconcile.WithObject(t.Context(), stored), c, pod); err != nil ||
		!metav1.IsControlledBy(pod, stored) {
		t.Errorf("%v, owned by %+v", err, pod.OwnerReferences)
	}
}

// Owner references cannot cross clusters: the garbage collector would delete the object.
func TestOwnerInAnotherCluster(t *testing.T) {
	server := apitest.New()
	c, err := client.New(client.Config{REST: server.REST()})
	must(t, err)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	must(t, c.Create(t.Context(), owner))
	ctx := reconcile.WithObject(reconcile.WithRequest(t.Context(),
		operator.Request{NamespacedName: client.KeyOf(owner)}), owner)
	_, err = operator.Apply(reconcile.WithCluster(ctx, "east"), c,
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	assert.ErrorContainsf(t, err, "owner ConfigMap default/a is in another cluster", "in another cluster")
	if pod, err := operator.Apply(ctx, c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}); err != nil ||
		!metav1.IsControlledBy(pod, owner) {
		t.Errorf("in the same cluster: %v, %v", pod.OwnerReferences, err)
	}
}
