package history_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/history"
)

// deployment returns JSON with entries of managedFields, each "manager operation time fieldsV1".
func deployment(uid string, revision int, body string, managers ...string) []byte {
	var entries []string
	for _, m := range managers {
		word := strings.SplitN(m, " ", 4)
		entries = append(entries, fmt.Sprintf(`{"manager":%q,"operation":%q,"time":"2026-11-23T%sZ","fieldsV1":%s}`,
			word[0], word[1], word[2], word[3]))
	}
	return fmt.Appendf(nil, `{"kind":"Deployment","metadata":{"uid":%q,"resourceVersion":"%d","managedFields":[%s]},%s}`, uid, revision, strings.Join(entries, ","), body)
}

// blame returns lines "path value revision[!] managers"; ! marks the first recorded version.
func blame(t *testing.T, s history.State, key history.Key, opts history.DiffOptions) string {
	t.Helper()
	fields, ok, err := s.Blame(key, opts)
	must(t, err)
	if !ok {
		return "absent"
	}
	var b strings.Builder
	for _, f := range fields {
		first := ""
		if f.First {
			first = "!"
		}
		fmt.Fprintf(&b, "%s %s %d%s", f.Path, f.Value, f.Version.Revision, first)
		for _, o := range f.Owners {
			fmt.Fprintf(&b, " %s/%s", o.Manager, o.Operation)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// For each field, the blame shows its value, the revision since which it has that value, and the
// manager that set it.
func TestBlame(t *testing.T) {
	const kubectl = `kubectl Apply 10:00:00 {"f:spec":{"f:replicas":{},"f:args":{},"f:tags":{"v:\"a\"":{}},"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:name":{}}}}}`
	const scaler = `scaler Update 10:05:00 {"f:spec":{"f:replicas":{}}}`
	spec := func(replicas int, image string) string {
		return fmt.Sprintf(`"spec":{"replicas":%d,"args":["x"],"tags":["a"],"containers":[{"name":"web","image":%q,"policy":"Always"}]}`, replicas, image)
	}
	key := history.Key{"pods", "default", "web"}
	var file bytes.Buffer
	w := newWriter(t, &file)
	put := func(revision uint64, data []byte) {
		must(t, w.Put(key, revision, epoch.Add(time.Duration(revision)*time.Second), data))
	}
	put(1, deployment("u1", 1, spec(1, "nginx:1"), kubectl))
	put(2, deployment("u1", 2, spec(2, "nginx:1"), kubectl, scaler))
	put(3, deployment("u1", 3, spec(2, "nginx:2"), strings.Replace(kubectl, "10:00", "10:06", 1), scaler))
	put(4, deployment("u1", 4, spec(1, "nginx:2"), kubectl, scaler)) // a value that it had before
	// The deletion of u1 was not recorded.
	put(7, deployment("u2", 7, `"spec":{"replicas":1}`, scaler))
	must(t, w.Delete(key, 8, epoch.Add(8*time.Second)))
	put(9, deployment("u2", 9, `"spec":{"replicas":1}`))
	must(t, w.Flush())
	h := read(t, file.Bytes())

	const unchanged = `.metadata.uid "u1" 1!
.spec.args[0] "x" 1! kubectl/Apply
`
	const container = `.spec.containers[web].name "web" 1! kubectl/Apply
.spec.containers[web].policy "Always" 1!
`
	const tag = ".spec.tags[0] \"a\" 1! kubectl/Apply\n"
	for revision, want := range map[uint64]string{
		0: "absent",
		1: `.kind "Deployment" 1!` + "\n" + unchanged + `.spec.containers[web].image "nginx:1" 1! kubectl/Apply` +
			"\n" + container + ".spec.replicas 1 1! kubectl/Apply\n" + tag,
		3: `.kind "Deployment" 1!` + "\n" + unchanged + `.spec.containers[web].image "nginx:2" 3 kubectl/Apply` + "\n" +
			container + ".spec.replicas 2 2 scaler/Update kubectl/Apply\n" + tag,
		4: `.kind "Deployment" 1!` + "\n" + unchanged + `.spec.containers[web].image "nginx:2" 3 kubectl/Apply` + "\n" +
			container + ".spec.replicas 1 4 scaler/Update kubectl/Apply\n" + tag,
		7: ".kind \"Deployment\" 7\n.metadata.uid \"u2\" 7\n.spec.replicas 1 7 scaler/Update\n",
		8: "absent",
		9: ".kind \"Deployment\" 9\n.metadata.uid \"u2\" 9\n.spec.replicas 1 9\n",
	} {
		assert.Equalf(t, blame(t, h.At(revision), key, history.DiffOptions{}), want, "revision %d", revision)
	}
	if got := blame(t, h.AtTime(epoch.Add(2500*time.Millisecond)), key,
		history.DiffOptions{Metadata: true}); !strings.Contains(got, `.metadata.resourceVersion "2" 2`) ||
		!strings.Contains(got, `.metadata.managedFields[1].manager "scaler" 2`) {
		t.Errorf("with metadata: %s", got)
	}
	got := blame(t, h.At(9), history.Key{"pods", "default", "other"}, history.DiffOptions{})
	assert.Equalf(t, got, "absent", "an object that never existed")
}

// Without the values of Secrets, the version that changed one is unknown.
func TestBlameOfSecrets(t *testing.T) {
	key := history.Key{"pods", "default", "s"}
	secret := func(value string) []byte {
		return []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"uid":"u","managedFields":[{"manager":"kubectl","operation":"Update","fieldsV1":{"f:data":{".":{},"f:k":{}}}}]},"data":{"k":"` + value + `"}}`)
	}
	states := func(redacted bool) history.State {
		var file bytes.Buffer
		w := newWriter(t, &file)
		for i, data := range [][]byte{secret("b25l"), secret("dHdv")} {
			if redacted {
				var err error
				data, err = history.Redact(data)
				must(t, err)
			}
			must(t, w.Put(key, uint64(i)+1, epoch, data))
		}
		must(t, w.Flush())
		return read(t, file.Bytes()).At(2)
	}
	for _, tt := range []struct {
		redacted, show bool
		want           string
	}{
		{true, false, ".data.k (hidden) 0 kubectl/Update\n"},
		{true, true, `.data.k "" 0 kubectl/Update` + "\n"},
		{false, false, ".data.k (hidden) 2 kubectl/Update\n"},
		{false, true, `.data.k "dHdv" 2 kubectl/Update` + "\n"},
	} {
		if got := blame(t, states(tt.redacted), key, history.DiffOptions{Secrets: tt.show}); !strings.Contains(got,
			tt.want) || !tt.show && strings.Contains(got, "dHdv") {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

// The writers of a version are the managers whose entry is new or has a new time. If a manager
// writes twice in a second, they are those that own the changed fields.
func TestWriters(t *testing.T) {
	const scaler, controller = `scaler Update 10:00:00 {"f:spec":{"f:replicas":{}}}`,
		`controller Update 10:00:00 {"f:status":{"f:ready":{}}}`
	body := func(replicas, ready int) string {
		return fmt.Sprintf(`"spec":{"replicas":%d},"status":{"ready":%d}`, replicas, ready)
	}
	first := deployment("u", 1, body(1, 0), scaler)
	second := deployment("u", 2, body(1, 1), scaler, controller)
	at := time.Date(2026, 11, 23, 10, 0, 0, 5e8, time.UTC)
	for name, tt := range map[string]struct {
		from, to []byte
		at       time.Time
		want     string
	}{
		"created":     {nil, first, at, "scaler"},
		"a new entry": {first, second, at, "controller"},
		"a new time": {second, deployment("u", 3, body(1, 1),
			strings.Replace(scaler, "10:00:00", "10:05:00", 1), controller), at, "scaler"},
		"twice in a second":   {second, deployment("u", 3, body(1, 2), scaler, controller), at, "controller"},
		"by both":             {second, deployment("u", 3, body(2, 2), scaler, controller), at, "scaler controller"},
		"by none, much later": {second, deployment("u", 3, body(1, 2), scaler, controller), at.Add(time.Minute), ""},
		"only a version":      {second, deployment("u", 3, body(1, 1), scaler, controller), at, ""},
	} {
		owners, err := history.Writers(tt.from, tt.to, tt.at)
		must(t, err)
		var names []string
		for _, o := range owners {
			names = append(names, o.Manager)
		}
		assert.Equalf(t, strings.Join(names, " "), tt.want, "%s", name)
	}
}
