package kubernetes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// garbage is a control plane with helpers for these tests.
type garbage struct {
	*testing.T
	*testenv.Env
}

func collecting(t *testing.T, test func(p garbage)) {
	synctest.Test(t, func(t *testing.T) { test(garbage{t, testenv.New(t, testenv.Log(t))}) })
}

// add creates a ConfigMap with owners.
func (p garbage) add(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	p.Helper()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: owners}}
	p.Create(p.T, obj)
	return obj
}

func ownedBy(owner *corev1.ConfigMap, block bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID,
		BlockOwnerDeletion: &block}
}

func (p garbage) delete(obj client.Object, policy metav1.DeletionPropagation) {
	p.Helper()
	require.NoError(p, p.Client().Delete(p.Context(), obj, client.PropagationPolicy(policy)))
}

// left waits until all controllers are idle and checks which ConfigMaps exist.
func (p garbage) left(want ...string) {
	p.Helper()
	p.Settle(p.T)
	list, err := client.List[corev1.ConfigMap](p.Context(), p.Client(), client.InNamespace("default"))
	require.NoError(p, err)
	var got []string
	for i := range list {
		got = append(got, list[i].Name)
	}
	assert.Slicef(p, got, want, "ConfigMaps")
}

func (p garbage) update(obj client.Object, change func()) {
	p.Helper()
	p.Get(p.T, obj)
	change()
	require.NoError(p, p.Client().Update(p.Context(), obj))
}

// A background deletion removes all dependents, at any depth and without delay.
func TestBackgroundDeletionCascades(t *testing.T) {
	collecting(t, func(p garbage) {
		root := p.add("a-root")
		child := p.add("b-child", ownedBy(root, false))
		p.add("c-grandchild", ownedBy(child, false))
		p.add("d-other")
		p.left("a-root", "b-child", "c-grandchild", "d-other")
		begin := time.Now()
		p.delete(root, metav1.DeletePropagationBackground)
		p.left("d-other")
		assert.Equalf(p, time.Since(begin), 0, "the cascade waited for")
	})
}

// A foreground deletion waits for the dependents that block it, and removes the others.
func TestForegroundDeletionWaitsForBlockingDependents(t *testing.T) {
	collecting(t, func(p garbage) {
		root := p.add("a-root")
		blocking := p.add("b-blocks", ownedBy(root, true))
		p.add("c-goes", ownedBy(root, false))
		p.update(blocking, func() { blocking.Finalizers = []string{"example.com/wait"} })
		p.delete(root, metav1.DeletePropagationForeground)
		p.left("a-root", "b-blocks")
		p.update(blocking, func() { blocking.Finalizers = nil })
		p.left()
	})
}

// An orphaning deletion keeps the dependents and removes their references to the owner.
func TestOrphanDeletion(t *testing.T) {
	collecting(t, func(p garbage) {
		root := p.add("a-root")
		child := p.add("b-child", ownedBy(root, true))
		p.delete(root, metav1.DeletePropagationOrphan)
		p.left("b-child")
		p.Get(p.T, child)
		assert.Lenf(p, child.OwnerReferences, 0, "the orphan still has its owner reference")
	})
}

// A dependent stays as long as one of its owners exists, and loses the reference to the deleted
// one.
func TestDependentOfSeveralOwners(t *testing.T) {
	collecting(t, func(p garbage) {
		one, other := p.add("a-one"), p.add("b-other")
		shared := p.add("c-shared", ownedBy(one, false), ownedBy(other, false))
		p.delete(one, metav1.DeletePropagationBackground)
		p.left("b-other", "c-shared")
		p.Get(p.T, shared)
		if len(shared.OwnerReferences) != 1 || shared.OwnerReferences[0].UID != other.UID {
			p.Errorf("owners: %v", shared.OwnerReferences)
		}
		for _, entry := range shared.ManagedFields {
			if fields := entry.FieldsV1.String(); strings.Contains(fields, string(one.UID)) {
				p.Errorf("%s still manages the removed reference: %s", entry.Manager, fields)
			}
		}
	})
}

// An object whose owner reference has the UID of no existing object is deleted.
func TestOwnerWithAnotherUID(t *testing.T) {
	collecting(t, func(p garbage) {
		owner := p.add("a-owner")
		impostor := ownedBy(owner, false)
		impostor.UID = "00000000-0000-0000-0000-000000000000"
		p.add("b-claims", impostor)
		p.left("a-owner")
	})
}

// An object whose owner is in another namespace is deleted, and an Event gives the reason. A
// cluster-scoped object with such a reference stays.
func TestOwnerInAnotherNamespace(t *testing.T) {
	collecting(t, func(p garbage) {
		elsewhere := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "owner"}}
		p.Create(p.T, elsewhere)
		claims := p.add("b-claims", ownedBy(elsewhere, false))
		p.left()
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "claims",
			OwnerReferences: claims.OwnerReferences}}
		p.Create(p.T, role) // stays: a reference names no namespace
		p.Settle(p.T)
		p.Get(p.T, role)
		for about, namespace := range map[string]string{"ConfigMap/b-claims": "default", "ClusterRole/claims": ""} {
			want := fmt.Sprintf("ownerRef [v1/ConfigMap, namespace: %s, name: owner, uid: %s] does not exist in namespace %q", namespace, elsewhere.UID, namespace)
			if events := recorded(p.T, p.Env, about); !slices.Contains(events, "OwnerRefInvalidNamespace: "+want) {
				p.Errorf("Events about %s: %q, want %q", about, events, want)
			}
		}
	})
}

// recorded returns the Events about an object, named KIND/NAME.
func recorded(t *testing.T, env *testenv.Env, about string) []string {
	t.Helper()
	list, err := client.List[corev1.Event](t.Context(), env.Client())
	require.NoError(t, err)
	var found []string
	for _, e := range list {
		if e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name == about {
			found = append(found, e.Reason+": "+e.Message)
		}
	}
	return found
}

// A foreground deletion ends although the dependents own each other in a cycle.
func TestForegroundDeletionOfACycle(t *testing.T) {
	collecting(t, func(p garbage) {
		a := p.add("a")
		b := p.add("b", ownedBy(a, true))
		c := p.add("c", ownedBy(b, true))
		p.update(a, func() { a.OwnerReferences = []metav1.OwnerReference{ownedBy(c, true)} })
		p.left("a", "b", "c")
		p.delete(a, metav1.DeletePropagationForeground)
		p.left()
	})
}

// A dependent stays while the kind of its owner is not served. Once the kind is served, it is
// deleted because the owner is missing.
func TestOwnerOfAnUnservedKind(t *testing.T) {
	collecting(t, func(p garbage) {
		p.add("claims", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "x", UID: "1"})
		p.left("claims")
		crd := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "things.example.com"},
			"spec": map[string]any{
				"group": "example.com", "scope": "Namespaced",
				"names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing"},
				"versions": []any{map[string]any{
					"name": "v1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
				}},
			},
		}}
		p.Create(p.T, crd)
		// now that the kind is served, the collector can tell that the owner does not exist
		time.Sleep(time.Minute)
		p.left()
	})
}

// A deleted Namespace loses its objects, refuses new ones, and ends when the last finalizer in it
// is removed.
func TestNamespaceDeletion(t *testing.T) {
	collecting(t, func(p garbage) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
		p.Create(p.T, ns)
		held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "held",
			Finalizers: []string{"example.com/wait"}}}
		p.Create(p.T, held)
		p.Create(p.T, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "free"}})
		p.delete(ns, metav1.DeletePropagationBackground)
		p.Settle(p.T)
		p.Get(p.T, ns)
		assert.Equalf(p, ns.Status.Phase, corev1.NamespaceTerminating, "phase")
		assert.Equalf(p, p.Plane().Store().Snapshot().Count("secrets", "team"), 0, "secrets left")
		err := p.Client().Create(p.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "late"}})
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			p.Errorf("create in a terminating namespace: %v", err)
		}
		p.update(held, func() { held.Finalizers = nil })
		p.Settle(p.T)
		if err := p.Client().Get(p.Context(), client.KeyOf(ns), ns); !apierrors.IsNotFound(err) {
			p.Errorf("the empty namespace still exists: %v %v", err, ns.Status)
		}
	})
}
