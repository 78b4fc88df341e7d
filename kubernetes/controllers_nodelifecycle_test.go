package kubernetes_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
)

// A node that reports no status for a minute after its creation gets unknown conditions. One that
// did report keeps its own.
func TestUnreportedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t))
		env.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "silent"}})
		reported := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "heard"}}
		env.Create(t, reported)
		reported.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			Reason: "Test"}}
		require.NoError(t, env.Client().Subresource("status").Update(t.Context(), reported, nil))
		conditions := func(name string) (all string) {
			t.Helper()
			env.Settle(t)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			env.Get(t, node)
			for _, c := range node.Status.Conditions {
				all += fmt.Sprintf("%s=%s (%s) ", c.Type, c.Status, c.Reason)
			}
			return all
		}
		time.Sleep(59 * time.Second)
		if got := conditions("silent"); got != "" {
			t.Errorf("within a minute: %s", got)
		}
		time.Sleep(2 * time.Second)
		want := "Ready=Unknown (NodeStatusNeverUpdated) MemoryPressure=Unknown (NodeStatusNeverUpdated) " +
			"DiskPressure=Unknown (NodeStatusNeverUpdated) PIDPressure=Unknown (NodeStatusNeverUpdated) "
		if got := conditions("silent"); got != want {
			t.Errorf("after a minute: %s", got)
		}
		if got := conditions("heard"); got != "Ready=True (Test) " {
			t.Errorf("a node that reported its status: %s", got)
		}
	})
}
