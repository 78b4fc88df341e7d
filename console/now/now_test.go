package now

import (
	"fmt"
	"testing"
	"time"

	"kelson.dev/console/internal/inventory"
	"kelson.dev/console/internal/traces"
)

// If everything fails at once, a state has the number of objects, and the first ones.
func TestManyProblems(t *testing.T) {
	var snapshot inventory.Snapshot
	for i := range 2 * maxItems {
		phase := "Failed"
		if i%4 == 0 {
			phase = "Pending"
		}
		snapshot.Objects = append(snapshot.Objects, &inventory.Object{Resource: "pods", Kind: "Pod", Namespace: "default", Name: fmt.Sprint("p", i), UID: fmt.Sprint(i), Phase: phase, Replicas: -1})
	}
	state := find(snapshot, traces.New(nil), "", time.Now())
	if len(state.Items) != maxItems || state.Total != 2*maxItems || state.Bad != maxItems*3/2 {
		t.Errorf("%d items of %d, %d bad", len(state.Items), state.Total, state.Bad)
	}
}
