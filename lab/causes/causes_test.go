package causes_test

import (
	"encoding/json"
	"strings"
	"testing"

	"kelson.dev/lab/causes"
)

// Two operators: one creates a ConfigMap for a Deploy, the other creates a Pod for the ConfigMap.
const (
	first = `{"id":1,"run":"aaaa","time":"2030-01-02T15:04:05Z","controller":"deploy","kind":"Deploy","namespace":"default","name":"d","causes":[{"event":"add","kind":"Deploy","namespace":"default","name":"d","resourceVersion":"7","manager":"kubectl-create"}],"writes":[{"verb":"apply","kind":"ConfigMap","namespace":"default","name":"c","resourceVersion":"8","changed":true}],"duration":"1ms"}
`
	second = `{"id":1,"run":"bbbb","time":"2030-01-02T15:04:06Z","controller":"pods","kind":"ConfigMap","namespace":"default","name":"c","causes":[{"event":"add","kind":"ConfigMap","namespace":"default","name":"c","resourceVersion":"8","manager":"first"}],"error":"forbidden","duration":"1ms"}
{"id":2,"run":"bbbb","time":"2030-01-02T15:04:06.5Z","controller":"pods","kind":"ConfigMap","namespace":"default","name":"c","causes":[{"event":"retry"}],"writes":[{"verb":"create","kind":"Pod","namespace":"default","name":"p","resourceVersion":"9","changed":true}],"duration":"1ms"}
`
)

// The order in which traces are read does not matter, and reading one again has no effect.
func TestExplain(t *testing.T) {
	for _, traces := range [][]string{{first, second}, {second, first}, {first, second, first, second}} {
		var readers []*strings.Reader
		for _, text := range traces {
			readers = append(readers, strings.NewReader(text))
		}
		x, err := causes.Read(readers[0], readers[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, again := range readers[2:] {
			more, err := causes.Read(again)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range more.Records() {
				if x.Add(r) {
					t.Errorf("reconcile %d of run %s was added twice", r.ID, r.Run)
				}
			}
		}
		found := x.Find("pods", "", "p")
		if len(found) != 1 {
			t.Fatalf("found %v", found)
		}
		e := x.Explain(found[0], 5)
		by := e.Writes[0].By.Because[0].By.Because[0]
		if by.Write == nil || by.Write.Verb != "apply" || by.By.Controller != "deploy" || by.By.Because[0].Cause.Manager != "kubectl-create" {
			data, _ := json.Marshal(e)
			t.Errorf("got %s", data)
		}
		if none := x.Explain(found[0], -1); len(none.Writes) > 0 || none.Earlier != len(e.Writes) {
			t.Errorf("the last -1 writes: %+v", none)
		}
		settled := causes.Object{Kind: "ConfigMap", Namespace: "default", Name: "c"}
		if u := x.Explain(settled, 5).Unsettled; len(u) > 0 {
			t.Errorf("the failure was followed by a success, but is listed: %v", u)
		}
	}
}

func TestEffectsAndConnected(t *testing.T) {
	x, err := causes.Read(strings.NewReader(first), strings.NewReader(second))
	if err != nil {
		t.Fatal(err)
	}
	effects := x.Effects(x.Record("aaaa", 1))
	if len(effects) != 1 || len(effects[0].Reconciles) != 1 || effects[0].Reconciles[0].Controller != "pods" {
		t.Errorf("got %+v", effects)
	}
	for _, tt := range []struct {
		run    string
		number uint64
		want   int
	}{{"bbbb", 2, 3}, {"bbbb", 1, 2}, {"aaaa", 1, 2}} {
		if got := x.Connected(x.Record(tt.run, tt.number), 100); len(got) != tt.want {
			t.Errorf("%s/%d is connected with %d reconciles, want %d", tt.run, tt.number, len(got), tt.want)
		}
	}
	if x.Record("aaaa", 9) != nil {
		t.Error("found a record that does not exist")
	}
}
