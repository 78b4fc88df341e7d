package explore_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// A Node whose agent has only renewed the times of its conditions is not part of the state; a Node
// that has changed otherwise is.
func TestNodesInState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Nodes(controlplane.Simulated{}))
		env.Settle(t)
		var nodes corev1.NodeList
		if err := env.Client().List(t.Context(), &nodes); err != nil || len(nodes.Items) == 0 {
			t.Fatalf("%v, %v", nodes.Items, err)
		}
		node := &nodes.Items[0]
		time.Sleep(time.Minute)
		write := func(change func()) []string {
			return explore.IDs(explore.StateAfter(t, env.Plane().Store(), func() {
				change()
				require.NoError(t, env.Client().Subresource("status").Update(t.Context(), node, nil))
				env.Settle(t)
			}))
		}
		got := write(func() {
			for i := range node.Status.Conditions {
				node.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
			}
		})
		if len(got) > 0 {
			t.Errorf("with new times, the state has %q", got)
		}
		got = write(func() { node.Status.Conditions[0].Reason = "OutOfLuck" })
		if want := "nodes " + node.Name; !slices.Equal(got, []string{want}) {
			t.Errorf("with a new reason, the state has %q, want %q", got, want)
		}
	})
}

// The older state of kill-old is the one before the removal of an object, not before that of its
// children by the garbage collector. The removal of a child by another client counts.
func TestRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Workloads())
		web := configMap("web")
		env.Create(t, web)
		child := func(name string) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(web,
					corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}}
		}
		collected, deleted := child("collected"), child("deleted")
		env.Create(t, collected)
		env.Create(t, deleted)
		exists := func(resource, name string, revision uint64) bool {
			snapshot, err := env.Plane().Store().At(revision)
			require.NoError(t, err)
			return snapshot.Get(store.Key{Resource: resource, Namespace: "default", Name: name}) != nil
		}
		remove := func(obj client.Object) uint64 {
			return explore.LastRemoval(t, env.Plane().Store(), func() {
				require.NoError(t, env.Client().Delete(t.Context(), obj))
				env.Settle(t)
			})
		}
		if at := remove(deleted); at == 0 || !exists("secrets", "deleted", at-1) {
			t.Errorf("%d is not the removal of a child by a client", at)
		}
		at := remove(web)
		if exists("secrets", "collected", env.Plane().Store().Snapshot().Revision()) {
			t.Error("the garbage collector has not deleted the child")
		}
		if at == 0 || !exists("configmaps", "web", at-1) {
			t.Errorf("%d is not the removal of the owner", at)
		}
	})
}

// UIDs in a name, and the beginning of an owner's UID, do not matter.
func TestNamesWithUIDsInState(t *testing.T) {
	var states []explore.State
	var names []string
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			env := testenv.New(t)
			env.Settle(t)
			states = append(states, explore.StateAfter(t, env.Plane().Store(), func() {
				owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
				env.Create(t, owner)
				names = append(names, "web-"+string(owner.UID[:8])+"-1")
				env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: names[len(names)-1],
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}})
				env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key-" + string(owner.UID)}})
				env.Settle(t)
			}))
		})
	}
	if names[0] == names[1] {
		t.Fatalf("names %q, want two different ones", names)
	}
	if lines := states[1].Diff(states[0]); len(lines) > 0 {
		t.Errorf("the states differ: %q", lines)
	}
	if got, want := explore.IDs(states[0]), []string{"configmaps default/web", "secrets default/key-*", "secrets default/web-*-1"}; !slices.Equal(got, want) {
		t.Errorf("the state has %q, want %q", got, want)
	}
}

// Names with the UIDs of owners raise no alarm, and plans contain them without the UIDs, so that
// later runs reach the same points.
func TestNamesWithUIDsInPlans(t *testing.T) {
	for name, id := range map[string]func(uid string) string{"whole": func(uid string) string { return uid }, "beginning": func(uid string) string { return uid[:8] }} {
		t.Run(name, func(t *testing.T) {
			reconcile := func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
				if cm.Name != "one" && cm.Name != "two" {
					return operator.Result{}, nil
				}
				key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: "key-" + id(string(cm.UID)),
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cm, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}}
				if err := ignoreExisting(c.Create(ctx, key)); err != nil || cm.Data["key"] != "" {
					return operator.Result{}, err
				}
				cm = cm.DeepCopy()
				cm.Data = map[string]string{"key": key.Name}
				return operator.Result{}, c.Update(ctx, cm)
			}
			s := explore.Scenario{
				Operator: explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each { return &each{d, reconcile} }, operator.Owns[corev1.Secret]())),
				Inputs: []explore.Input{
					explore.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}),
					explore.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"}}),
				},
			}
			for _, plan := range []string{"kill-before create secrets default/key-* #1", "kill-after create secrets default/key-* #2"} {
				if alarms, steps := replayed(t, s, plan); alarms != "" || !strings.Contains(steps, "FAULT "+plan) {
					t.Errorf("%s: %s\n%s", plan, alarms, steps)
				}
			}
		})
	}
}

// The addresses that the server chooses for Services do not matter.
func TestServicesInState(t *testing.T) {
	service := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	var states []explore.State
	var addresses []string
	for _, address := range []string{"10.0.0.77", "10.0.0.78"} {
		synctest.Test(t, func(t *testing.T) {
			env := testenv.New(t)
			env.Settle(t)
			states = append(states, explore.StateAfter(t, env.Plane().Store(), func() {
				web := service("web")
				web.Spec.ClusterIP = address // as the server might have chosen
				env.Create(t, web)
				env.Settle(t)
				addresses = append(addresses, web.Spec.ClusterIP)
			}))
		})
	}
	if addresses[0] == addresses[1] || addresses[0] == "" {
		t.Fatalf("addresses %q, want two different ones", addresses)
	}
	if lines := states[1].Diff(states[0]); len(lines) > 0 {
		t.Errorf("the states differ: %q", lines)
	}
	if got, want := explore.IDs(states[0]), []string{"ipaddresses.networking.k8s.io IP*", "services default/web"}; !slices.Equal(got, want) {
		t.Errorf("the state has %q, want %q", got, want)
	}
}
