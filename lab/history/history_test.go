package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/history"
)

var pods = history.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Singular: "pod", ShortNames: []string{"po"},
	Namespaced: true}

func pod(name string, revision uint64, phase string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"default","uid":"0c3f4c1e-8f3d-4f0e-9a51-%012x","resourceVersion":"%d",`+
		`"labels":{"app":"web","pod-template-hash":"6d4cf56db6"},"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-11-23T10:%02d:%02dZ"}]},`+
		`"spec":{"containers":[{"name":"web","image":"nginx:1.27","ports":[{"containerPort":80,"protocol":"TCP"}],"resources":{},"terminationMessagePath":"/dev/termination-log"}],"restartPolicy":"Always"},`+
		`"status":{"phase":%q,"startTime":"2026-11-23T10:00:00Z","hostIP":"10.0.0.%d"}}`, name,
		len(name)*7919+int(name[len(name)-1]), revision, revision/60%60, revision%60, phase, revision%250)
}

var must = require.NoError

func newWriter(t testing.TB, to *bytes.Buffer) *history.Writer {
	w, err := history.NewWriter(to)
	must(t, err)
	must(t, w.Resource(pods))
	return w
}

func read(t testing.TB, file []byte) *history.History {
	h, err := history.Read(bytes.NewReader(file), int64(len(file)))
	must(t, err)
	return h
}

var epoch = time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)

// Every state of a random history equals the state of a model.
func TestEveryStateIsKept(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var file bytes.Buffer
	w := newWriter(t, &file)
	states := []map[string]string{{}}
	for revision := uint64(1); revision <= 600; revision++ {
		state := map[string]string{}
		for name, data := range states[revision-1] {
			state[name] = data
		}
		name := fmt.Sprintf("web-%d", random.IntN(12))
		key, when := history.Key{"pods", "default", name}, epoch.Add(time.Duration(revision)*time.Second)
		if _, exists := state[name]; exists && random.IntN(10) == 0 {
			delete(state, name)
			must(t, w.Delete(key, revision, when))
		} else {
			data := pod(name, revision, fmt.Sprint(random.Uint64()))
			state[name] = string(data)
			must(t, w.Put(key, revision, when, data))
		}
		states = append(states, state)
	}
	must(t, w.Flush())
	h := read(t, file.Bytes())
	for revision, want := range states {
		for kind, state := range map[string]history.State{
			"revision": h.At(uint64(revision)),
			"time":     h.AtTime(epoch.Add(time.Duration(revision)*time.Second + time.Millisecond)),
		} {
			objects := state.Objects("pods")
			if len(objects) != len(want) {
				t.Fatalf("%s %d: %d objects, want %d", kind, revision, len(objects), len(want))
			}
			for _, v := range objects {
				_, data, ok, err := state.Get(v.Key)
				if err != nil || !ok || string(data) != want[v.Key.Name] {
					t.Fatalf("%s %d: %v = %s, %v, %v; want %s", kind, revision, v.Key, data, ok, err, want[v.Key.Name])
				}
			}
		}
	}
}

// A recorder that lists again after it lost a watch puts versions that the history already has.
func TestKnownVersionsAreIgnored(t *testing.T) {
	var file bytes.Buffer
	w := newWriter(t, &file)
	key := history.Key{"pods", "default", "web"}
	must(t, w.Put(key, 5, epoch, pod("web", 5, "Running")))
	must(t, w.Put(key, 5, epoch, pod("web", 5, "Running")))
	must(t, w.Delete(key, 4, epoch))
	must(t, w.Delete(history.Key{"pods", "default", "other"}, 9, epoch))
	assert.Slicef(t, w.Existing("pods"), []history.Key{key}, "existing")
	must(t, w.Delete(key, 6, epoch.Add(-time.Hour))) // the clock went back
	must(t, w.Delete(key, 7, epoch))
	must(t, w.Flush())
	h := read(t, file.Bytes())
	versions := slices.Collect(h.Versions(key))
	if len(versions) != 2 || versions[0].Revision != 5 || !versions[1].Deleted ||
		versions[1].Time.Before(versions[0].Time) {
		t.Errorf("versions: %v", versions)
	}
	err := w.Put(history.Key{"nodes", "", "n"}, 1, epoch, []byte("{}"))
	assert.ErrorContainsf(t, err, "nodes/n", "a resource that was not declared")
}

// Encoders of JSON add a line end.
func TestContentsHaveNoLineEnd(t *testing.T) {
	var file bytes.Buffer
	w := newWriter(t, &file)
	key := history.Key{"pods", "default", "web"}
	must(t, w.Put(key, 5, epoch, append(pod("web", 5, "Running"), '\n')))
	must(t, w.Put(key, 6, epoch, append(pod("web", 6, "Failed"), '\n')))
	must(t, w.Flush())
	for revision, want := range map[uint64][]byte{5: pod("web", 5, "Running"), 6: pod("web", 6, "Failed")} {
		if _, data, _, err := read(t, file.Bytes()).At(revision).Get(key); err != nil || !bytes.Equal(data, want) {
			t.Errorf("revision %d: %q, %v", revision, data, err)
		}
	}
}

// A crash leaves an incomplete frame at the end; damage elsewhere is an error.
func TestIncompleteAndDamagedFiles(t *testing.T) {
	var file bytes.Buffer
	w := newWriter(t, &file)
	var whole int
	for i := range uint64(20) {
		must(t, w.Put(history.Key{"pods", "default", "web"}, i+1, epoch, pod("web", i+1, "Running")))
		must(t, w.Flush())
		if i == 9 {
			whole = file.Len()
		}
	}
	for size := whole; size < file.Len(); size++ {
		h, err := history.Read(bytes.NewReader(file.Bytes()[:size]), int64(size))
		if err != nil || h.Newest() < 10 || h.Newest() >= 20 {
			t.Fatalf("%d of %d bytes: %v", size, file.Len(), err)
		}
	}
	for at := range whole {
		damaged := bytes.Clone(file.Bytes())
		damaged[at] ^= 0x41
		h, err := history.Read(bytes.NewReader(damaged), int64(len(damaged)))
		if err == nil && h.Newest() == 20 || err != nil && !errors.Is(err, history.ErrDamaged) {
			t.Fatalf("byte %d of %d changed: %v", at, file.Len(), err)
		}
	}
}

func TestFindResources(t *testing.T) {
	var file bytes.Buffer
	w := newWriter(t, &file)
	must(t, w.Resource(history.Resource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods",
		Kind: "PodMetrics"}))
	must(t, w.Flush())
	h := read(t, file.Bytes())
	for word, want := range map[string]int{"pods": 2, "po": 1, "Pod": 1, "pods.metrics.k8s.io": 1, "podmetrics": 1,
		"nodes": 0, "": 0} {
		assert.Lenf(t, h.Find(word), want, "%q", word)
	}
}

func TestDiff(t *testing.T) {
	secret := func(value, note string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"a":"` + note +
			`"}},"data":{"password":"` + value + `"}}`
	}
	for name, test := range map[string]struct {
		from, to string
		opts     history.DiffOptions
		want     []history.Change
	}{
		"same": {`{"a":1}`, `{"a":1}`, history.DiffOptions{}, nil},
		"scalar": {`{"spec":{"replicas":1}}`, `{"spec":{"replicas":12345678901234567}}`, history.DiffOptions{},
			[]history.Change{{".spec.replicas", "1", "12345678901234567"}}},
		"named items": {`{"c":[{"name":"a","v":1},{"name":"b"}]}`, `{"c":[{"name":"b"},{"name":"a","v":2}]}`,
			history.DiffOptions{}, []history.Change{{".c[a].v", "1", "2"}}},
		"conditions": {`{"c":[]}`, `{"c":[{"type":"Ready"}]}`, history.DiffOptions{},
			[]history.Change{{".c[Ready]", "", `{"type":"Ready"}`}}},
		"plain items": {`{"c":[1,2]}`, `{"c":[1]}`, history.DiffOptions{}, []history.Change{{".c[1]", "2", ""}}},
		"to a map": {`{"c":[1]}`, `{"c":{"d":1}}`, history.DiffOptions{},
			[]history.Change{{".c", "[1]", `{"d":1}`}}},
		"new object": {``, `{"kind":"A"}`, history.DiffOptions{}, []history.Change{{".kind", "", `"A"`}}},
		"metadata": {`{"metadata":{"resourceVersion":"1"}}`, `{"metadata":{"resourceVersion":"2"}}`,
			history.DiffOptions{}, nil},
		"all metadata": {`{"metadata":{"resourceVersion":"1"}}`, `{"metadata":{"resourceVersion":"2"}}`,
			history.DiffOptions{Metadata: true},
			[]history.Change{{".metadata.resourceVersion", `"1"`, `"2"`}}},
		"secret": {secret("b2xk", "x"), secret("bmV3", "y"), history.DiffOptions{},
			[]history.Change{{".data.password", "(hidden)", "(hidden)"},
				{".metadata.annotations.a", "(hidden)", "(hidden)"}}},
		"secret shown": {secret("b2xk", "x"), secret("bmV3", "x"), history.DiffOptions{Secrets: true},
			[]history.Change{{".data.password", `"b2xk"`, `"bmV3"`}}},
	} {
		got, err := history.Diff([]byte(test.from), []byte(test.to), test.opts)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, test.want)
		}
	}
	// the change of a new Secret must not show its whole data
	got, err := history.Diff(nil, []byte(secret("b2xk", "hush")), history.DiffOptions{})
	if err != nil || strings.Contains(fmt.Sprint(got), "b2xk") || strings.Contains(fmt.Sprint(got), "hush") {
		t.Errorf("new Secret: %v, %v", got, err)
	}
}

func TestRedact(t *testing.T) {
	in := `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{hush}"}},"data":{"k":"aHVzaA=="},"stringData":{"k":"hush"}}`
	got, err := history.Redact([]byte(in))
	if err != nil || strings.Contains(string(got), "hush") || strings.Contains(string(got), "aHVza") ||
		!strings.Contains(string(got), `"k":""`) {
		t.Errorf("%s, %v", got, err)
	}
	other := []byte(`{"kind":"Pod","spec":{"x":"Secret"}}`)
	if got, err := history.Redact(other); err != nil || !bytes.Equal(got, other) {
		t.Errorf("%s, %v", got, err)
	}
}
