package apitest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/bootstrappolicy"
)

// Stores that are created within a minute share the objects, also in different bubbles, whose
// clocks differ. A write to one store is not visible in others.
func TestFreshStores(t *testing.T) {
	admin := store.Key{Resource: "clusterroles.rbac.authorization.k8s.io", Name: "admin"}
	fresh := func(t *testing.T) types.UID {
		t.Helper()
		st, err := bootstrappolicy.Fresh(t.Context(), true)
		require.NoError(t, err)
		defer st.Close()
		obj := st.Snapshot().Get(admin)
		if obj == nil {
			t.Fatal("the cluster role admin does not exist")
		}
		if age := time.Now().Unix() - obj.Head.CreationTimestamp.Unix(); age < 0 || age > 60 {
			t.Errorf("the role is %d seconds old", age)
		}
		_, err = st.Commit(t.Context(), store.Op{Key: admin, Expect: obj.Revision})
		require.NoError(t, err)
		return obj.Head.UID
	}
	real := fresh(t)
	assert.Equalf(t, fresh(t), real, "two stores of the same minute have roles of their own")
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			first := fresh(t)
			if first == real {
				t.Error("a store has the role of another clock")
			}
			time.Sleep(30 * time.Second)
			assert.Equalf(t, fresh(t), first, "two stores of the same minute have roles of their own")
			time.Sleep(time.Hour)
			if fresh(t) == first {
				t.Error("a role is shared for more than a minute")
			}
		})
	}
	fresh(t)
}
