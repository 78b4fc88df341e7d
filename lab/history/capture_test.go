package history_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/history"
)

// captured is a record of k8shark.
type captured struct {
	Time  string          `json:"captured_at"`
	Path  string          `json:"api_path"`
	Event string          `json:"event_type,omitempty"`
	Code  int             `json:"response_code"`
	Body  json.RawMessage `json:"response_body"`
}

func capturedAt(second int, path, event, body string) captured {
	return captured{fmt.Sprintf("2026-11-23T10:00:%02dZ", second), path, event, 200, json.RawMessage(body)}
}

func object(name string, revision int, more string) string {
	return fmt.Sprintf(`{%s"metadata":{"name":%q,"namespace":"shop","resourceVersion":"%d"}}`, more, name, revision)
}

func listOf(apiVersion, kind string, revision int, items ...string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d"},"items":[%s]}`, apiVersion, kind,
		revision, strings.Join(items, ","))
}

// capture has two resources: Pods, which were polled and watched, and a kind of which two versions
// were polled. Its records are not in the order of their times.
func capture() []captured {
	const pods, old, shops = "/api/v1/namespaces/shop/pods", "/apis/store.example.com/v1beta1/shops",
		"/apis/store.example.com/v1/shops"
	const typed = `"apiVersion":"v1","kind":"Pod",`
	refused := capturedAt(2, "/api/v1/secrets", "", `{"kind":"Status"}`)
	refused.Code = 403
	return []captured{
		capturedAt(0, "/apis", "", `{"kind":"APIGroupList","groups":[{"name":"store.example.com","preferredVersion":{"version":"v1"}}]}`),
		capturedAt(0, "/api/v1", "", `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","kind":"Pod","shortNames":["po"],"namespaced":true}]}`),
		capturedAt(0, "/openapi/v2", "", `{}`),
		capturedAt(1, pods, "", listOf("v1", "PodList", 20, object("a", 10, ""), object("b", 11, ""))),
		capturedAt(1, pods+"?as=Table", "", `{"kind":"Table","rows":[]}`),
		capturedAt(1, pods+"/a/log?container=main", "", `"text"`),
		refused,
		capturedAt(6, pods, "", listOf("v1", "PodList", 40, object("c", 31, ""))), // a was deleted
		capturedAt(2, pods, "MODIFIED", object("a", 21, typed)),
		capturedAt(3, pods, "ADDED", object("c", 22, typed)),
		capturedAt(4, pods, "DELETED", object("b", 23, typed)),
		capturedAt(5, pods, "MODIFIED", object("c", 31, typed)),
		capturedAt(8, pods, "ADDED", object("a", 50, typed)),
		capturedAt(1, old, "", listOf("store.example.com/v1beta1", "ShopList", 20,
			object("x", 5, `"apiVersion":"store.example.com/v1beta1","kind":"Shop",`))),
		capturedAt(1, shops, "", listOf("store.example.com/v1", "ShopList", 20,
			object("x", 5, `"apiVersion":"store.example.com/v1","kind":"Shop",`))),
		capturedAt(2, "/apis/metrics.k8s.io/v1beta1/pods", "",
			`{"kind":"PodMetricsList","metadata":{},"items":[{"metadata":{"name":"a"}}]}`),
	}
}

// archive writes records in the format of k8shark's archives.
func archive(t *testing.T, version int, records []captured) []byte {
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	encoder, err := zstd.NewWriter(nil)
	must(t, err)
	add := func(name string, value any) {
		data, err := json.Marshal(value)
		must(t, err)
		if strings.HasSuffix(name, ".zst") {
			data = encoder.EncodeAll(data, nil)
		}
		f, err := z.Create("k8shark-capture/" + name)
		must(t, err)
		_, err = f.Write(data)
		must(t, err)
	}
	type entry struct {
		Path   string   `json:"api_path"`
		Seqs   []int    `json:"seqs"`
		Times  []string `json:"times"`
		Events []string `json:"event_types,omitempty"`
	}
	lists, watches, next := map[string]*entry{}, map[string]*entry{}, map[string]int{}
	for _, r := range records {
		index := lists
		if r.Event != "" {
			index = watches
		}
		if index[r.Path] == nil {
			index[r.Path] = &entry{Path: r.Path}
		}
		e := index[r.Path]
		e.Seqs, e.Times = append(e.Seqs, next[r.Path]), append(e.Times, r.Time)
		if r.Event != "" {
			e.Events = append(e.Events, r.Event)
		}
		sum := sha256.Sum256([]byte(r.Path))
		add(fmt.Sprintf("records/%s/%d.json.zst", hex.EncodeToString(sum[:])[:16], next[r.Path]), r)
		next[r.Path]++
	}
	wrapped := func(index map[string]*entry) any {
		if version < 2 {
			return index
		}
		return map[string]any{"entries": index}
	}
	add("index.json.zst", wrapped(lists))
	add("watch-index.json.zst", wrapped(watches))
	add("metadata.json", map[string]any{"format_version": version, "record_count": len(records)})
	must(t, z.Close())
	return file.Bytes()
}

// Captures in both archive versions and as a stream are imported with all versions and deletions of
// each object.
func TestImportCapture(t *testing.T) {
	var stream bytes.Buffer
	records := capture()
	slices.SortStableFunc(records, func(a, b captured) int { return strings.Compare(a.Time, b.Time) })
	for _, r := range records {
		must(t, json.NewEncoder(&stream).Encode(r))
	}
	for name, data := range map[string][]byte{"version 1": archive(t, 1, capture()),
		"version 2": archive(t, 2, capture()), "stream": stream.Bytes()} {
		t.Run(name, func(t *testing.T) {
			if !history.IsCapture(bytes.NewReader(data)) {
				t.Fatal("not recognized")
			}
			var file bytes.Buffer
			w, err := history.NewWriter(&file)
			must(t, err)
			got, err := history.ImportCapture(w, bytes.NewReader(data), int64(len(data)), false)
			must(t, err)
			assert.Equal(t, got, (history.Imported{Versions: 7, Deletions: 2}))
			h := read(t, file.Bytes())
			for key, want := range map[history.Key][]string{
				{Resource: "pods", Namespace: "shop", Name: "a"}: {"10 01", "21 02", "40 06 deleted",
					"50 08"},
				{Resource: "pods", Namespace: "shop", Name: "b"}:                    {"11 01", "23 04 deleted"},
				{Resource: "pods", Namespace: "shop", Name: "c"}:                    {"22 03", "31 05"},
				{Resource: "shops.store.example.com", Namespace: "shop", Name: "x"}: {"5 01"},
			} {
				var versions []string
				for v := range h.Versions(key) {
					versions = append(versions, fmt.Sprint(v.Revision, v.Time.UTC().Format(" 05"),
						map[bool]string{true: " deleted"}[v.Deleted]))
				}
				assert.Slicef(t, versions, want, "%v", key)
			}
			if found := h.Find("po"); len(found) != 1 || found[0].Kind != "Pod" {
				t.Errorf("po: %v", found)
			}
			at := h.AtTime(time.Date(2026, 11, 23, 10, 0, 1, 0, time.UTC))
			for key, want := range map[history.Key]string{
				{Resource: "pods", Namespace: "shop", Name: "a"}: `"kind":"Pod"`,
				{Resource: "shops.store.example.com", Namespace: "shop",
					Name: "x"}: `"apiVersion":"store.example.com/v1"`,
			} {
				if _, data, ok, err := at.Get(key); err != nil || !ok || !strings.Contains(string(data), want) {
					t.Errorf("%v: %s, %v; want %s", key, data, err, want)
				}
			}
		})
	}
}

// The values of Secrets are removed from lists, whose items have no kind, and from events.
func TestImportCaptureRedacts(t *testing.T) {
	const secret = `{%s"metadata":{"name":%q,"namespace":"shop","resourceVersion":"%d"},"data":{"password":"aHVzaA=="}}`
	data := archive(t, 2, []captured{
		capturedAt(1, "/api/v1/secrets", "", listOf("v1", "SecretList", 20, fmt.Sprintf(secret, "", "a", 10))),
		capturedAt(2, "/api/v1/secrets", "ADDED", fmt.Sprintf(secret, `"apiVersion":"v1","kind":"Secret",`, "b", 21)),
	})
	for secrets, want := range map[bool]string{true: `"password":"aHVzaA=="`, false: `"password":""`} {
		var file bytes.Buffer
		w, err := history.NewWriter(&file)
		must(t, err)
		_, err = history.ImportCapture(w, bytes.NewReader(data), int64(len(data)), secrets)
		must(t, err)
		h := read(t, file.Bytes())
		for _, name := range []string{"a", "b"} {
			_, got, ok, err := h.AtTime(time.Date(2026, 11, 23, 11, 0, 0, 0, time.UTC)).
				Get(history.Key{Resource: "secrets", Namespace: "shop", Name: name})
			if err != nil || !ok || !strings.Contains(string(got), want) {
				t.Errorf("%s: %s, %v; want %s", name, got, err, want)
			}
		}
	}
}

func TestImportOfDamagedCaptures(t *testing.T) {
	whole := archive(t, 2, capture())
	for want, data := range map[string][]byte{
		history.ErrEncryptedCapture.Error():                               []byte("age-encryption.org/v1\n-> scrypt"),
		"zip: not a valid zip file":                                       whole[:len(whole)/2],
		"its format has version 3, and only versions up to 2 can be read": archive(t, 3, capture()),
		`unknown event_type "MOVED"`: archive(t, 2,
			[]captured{capturedAt(1, "/api/v1/pods", "MOVED", object("a", 1, ""))}),
		"record 1: it has no api_path": []byte("{}\n"),
		"record 2: unexpected EOF":     []byte(`{"api_path":"/api/v1"}` + "\n{"),
	} {
		var file bytes.Buffer
		w, err := history.NewWriter(&file)
		must(t, err)
		_, err = history.ImportCapture(w, bytes.NewReader(data), int64(len(data)), false)
		assert.ErrorContains(t, err, want)
		if want == history.ErrEncryptedCapture.Error() && !errors.Is(err, history.ErrEncryptedCapture) {
			t.Errorf("%v is not ErrEncryptedCapture", err)
		}
	}
	for _, text := range []string{"", "text", `{"kind":"Event","apiVersion":"audit.k8s.io/v1"}`} {
		if history.IsCapture(strings.NewReader(text)) {
			t.Errorf("%q is a capture", text)
		}
	}
}
