package why

import (
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/causes"
)

// Two operators: one creates a ConfigMap for a Deploy, the other creates a Pod for the ConfigMap.
const (
	first = `{"id":1,"run":"aaaa","time":"2030-01-02T15:04:05Z","controller":"deploy","kind":"Deploy","namespace":"default","name":"d","causes":[{"event":"add","kind":"Deploy","namespace":"default","name":"d","resourceVersion":"7","manager":"kubectl-create"}],"writes":[{"verb":"apply","kind":"ConfigMap","namespace":"default","name":"c","resourceVersion":"8","changed":true}],"duration":"1.234567ms"}
{"id":2,"run":"aaaa","time":"2030-01-02T15:04:07Z","controller":"deploy","kind":"Deploy","namespace":"default","name":"d","causes":[{"event":"update","kind":"Deploy","namespace":"default","name":"d","resourceVersion":"12","manager":"kubectl-edit"}],"writes":[{"verb":"apply","kind":"ConfigMap","namespace":"default","name":"c","resourceVersion":"12","changed":false}],"error":"no milk","duration":"2ms"}
`
	second = `{"id":1,"run":"bbbb","time":"2030-01-02T15:04:06Z","controller":"pods","kind":"ConfigMap","namespace":"default","name":"c","causes":[{"event":"add","kind":"ConfigMap","namespace":"default","name":"c","resourceVersion":"8","manager":"first"}],"writes":[{"verb":"create","kind":"Pod","namespace":"default","name":"p","changed":true,"error":"forbidden"}],"error":"forbidden","duration":"1ms"}
{"id":2,"run":"bbbb","time":"2030-01-02T15:04:06.5Z","controller":"pods","kind":"ConfigMap","namespace":"default","name":"c","causes":[{"event":"retry"}],"writes":[{"verb":"create","kind":"Pod","namespace":"default","name":"p","resourceVersion":"9","changed":true}],"duration":"1ms"}
{"id":3,"run":"bbbb","time":"2030-01-02T15:04:08Z","controller":"pods","kind":"ConfigMap","namespace":"default","name":"c","causes":[{"event":"update","kind":"Pod","namespace":"default","name":"p","resourceVersion":"11","manager":"kubelet"}],"duration":"1ms","loop":{"controllers":["pods"],"objects":["Pod default/p"],"fields":["Pod default/p: spec.x (1 → 2 → 1)"],"reconciles":20,"within":1000000000}}
{"id":4,"run":"bb`
)

func explain(t *testing.T, kind, name string, last int) string {
	t.Helper()
	a, err := causes.Read(strings.NewReader(first), strings.NewReader(second))
	require.NoError(t, err)
	found := a.Find(kind, "", name)
	if len(found) != 1 {
		t.Fatalf("found %v", found)
	}
	var out strings.Builder
	writeText(&out, a.Explain(found[0], last))
	return out.String()
}

// The chain leads through both operators, from the pod to the user.
func TestChain(t *testing.T) {
	time.Local = time.UTC
	for _, tt := range []struct {
		kind, name string
		last       int
		want       string
	}{
		{"pods", "p", 1, `Pod default/p

(1 earlier writes: use --last to show more)

15:04:06.500  created by controller pods (reconcile 2 of ConfigMap default/c, 1ms)
  because the previous reconcile returned an error, by controller pods (reconcile 1 of ConfigMap default/c, 1ms)
    because ConfigMap default/c was applied by controller deploy (reconcile 1 of Deploy default/d, 1.23ms)
      because Deploy default/d was created by kubectl-create

15:04:08.000  hot loop: 20 reconciles of pods in 1s repeatedly write Pod default/p; flapping fields: Pod default/p: spec.x (1 → 2 → 1)
`},
		{"deploy.example.com", "d", 5, `Deploy default/d

15:04:05.000  reconciled by controller deploy (reconcile 1 of Deploy default/d, 1.23ms): ConfigMap default/c applied
  because Deploy default/d was created by kubectl-create

15:04:07.000  reconciled by controller deploy (reconcile 2 of Deploy default/d, 2ms): failed: no milk
  because Deploy default/d was changed by kubectl-edit

15:04:07.000  the last reconcile by controller deploy (reconcile 2 of Deploy default/d, 2ms): failed: no milk
`},
		{"ConfigMap", "c", 5, `ConfigMap default/c

15:04:05.000  applied by controller deploy (reconcile 1 of Deploy default/d, 1.23ms)
  because Deploy default/d was created by kubectl-create
`},
	} {
		assert.Equalf(t, explain(t, tt.kind, tt.name, tt.last), tt.want, "%s", tt.kind)
	}
}

func TestMalformedTraces(t *testing.T) {
	_, err := causes.Read(strings.NewReader("{}\nnonsense\n"))
	assert.ErrorContains(t, err, "line 2")
	a, err := causes.Read(strings.NewReader(first))
	require.NoError(t, err)
	if found := a.Find("pod", "", "absent"); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	if found := a.Find("deploys", "elsewhere", "d"); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}
