package kubernetes_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
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
		assert.Equalf(t, conditions("silent"), "", "within a minute")
		time.Sleep(2 * time.Second)
		want := "Ready=Unknown (NodeStatusNeverUpdated) MemoryPressure=Unknown (NodeStatusNeverUpdated) " +
			"DiskPressure=Unknown (NodeStatusNeverUpdated) PIDPressure=Unknown (NodeStatusNeverUpdated) "
		assert.Equalf(t, conditions("silent"), want, "after a minute")
		assert.Equalf(t, conditions("heard"), "Ready=True (Test) ", "a node that reported its status")
	})
}
