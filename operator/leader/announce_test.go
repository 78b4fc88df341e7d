package leader

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// The response to an announcement is lost, and then the replica's view changes. Other replicas may
// act on the announcement, so the replica does not take back the objects that it gave away until
// its watch has delivered a later announcement.
func TestAnnouncementWithoutResponse(t *testing.T) {
	s, err := NewShards(ShardsConfig{Client: noClient{}, Group: client.Key{Namespace: "n", Name: "g"}, Identity: "a"})
	require.NoError(t, err)
	alone, both := view{"a"}, view{"a", "b"}
	var given reconcile.Request // given away, according to both views
	for i := 0; given.Name == "" || both.owner(given) != "b"; i++ {
		given = reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprint(i)}}
	}
	s.until = time.Now().Add(time.Minute)
	s.state = state{announced: alone, peers: map[string]view{"b": {}}}
	s.own = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7",
		Annotations: map[string]string{viewAnnotation: alone.String()}}}
	mine := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.state.gives(given, "a")
	}
	if !mine() {
		t.Fatal("the object does not belong to the replica at first")
	}
	s.turn(both)
	s.sending(both)
	s.unsure = true // the response was lost
	if !s.turn(alone) {
		t.Error("the new view is not announced")
	}
	if mine() {
		t.Error("the replica works on an object that it may have given away")
	}
}

// noClient is a client that is not used.
type noClient struct{ client.Client }
