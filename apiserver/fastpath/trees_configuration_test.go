package fastpath_test

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"kelson.dev/apiserver/fastpath/trees"
	"kelson.dev/internal/require"
)

var configurations = []string{
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b","n":""}}`,
	"{\n  \"a\": [1, -2, true, null, \"x\", {}, []],\n  \"b\": {\"c\": 9223372036854775807}\n}\n",
	`{"a":"yes","b":"1","c":"null","d":"~","e":"1e3","f":"2026-01-01","g":"# no","h":"a: b","i":"- x","j":"'","k":"%x","l":"@","m":"0x1f"}`,
	`{"a":{"b":{"c":{"d":[[[]]]}}},"":1,"true":false}`,
	`{"a" : 1 , "b":2}`,
	// These are left to YAML.
	`{"a":1.0}`, `{"a":1e3}`, `{"a":"\u00e9"}`, `{"a":"é"}`, `{"a":1,"a":2}`, "{\"a\":\t1}", `{"<<":{"a":1}}`,
	`{"a":18446744073709551615}`,
	`a: b`, `[]`, ``, `{"a":1} x`, `{a: 1}`, `{"a":01}`,
}

// TestConfiguration parses configurations as JSON and as YAML.
func TestConfiguration(t *testing.T) {
	plain := 0
	for _, text := range configurations {
		if agree(t, []byte(text)) {
			plain++
		}
	}
	if plain != 5 {
		t.Errorf("%d of %d were read as JSON, not 5", plain, len(configurations))
	}
}

func FuzzConfiguration(f *testing.F) {
	for _, text := range configurations {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) { agree(t, body) })
}

// agree fails the test if Configuration and the YAML parser return different objects. It reports
// whether Configuration returned one.
func agree(t *testing.T, body []byte) bool {
	t.Helper()
	got, ok := trees.Configuration(body)
	if !ok {
		return false
	}
	want, strict := map[string]any{}, map[string]any{}
	require.NoErrorf(t, yaml.Unmarshal(body, &want), "%q is not YAML", body)
	require.NoErrorf(t, yaml.UnmarshalStrict(body, &strict), "%q: strictly", body)
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("%q: %#v, as YAML %#v", body, got, want)
	}
	return true
}
