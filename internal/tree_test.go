package internal_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/internal/tree"
)

const widget = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"default","uid":"u1",
	"resourceVersion":"7","labels":{"x":"y"},"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{".":{},"k:{\"name\":\"é\"}":{}}}}]},
	"spec":{"n":1,"big":9223372036854775808,"f":1.50,"e":1e3,"minus":-0,"t":true,"f2":false,"none":null,"list":[1,"two",{},[]],
	"text":"a\"b\\c\/\b\f\n\r\té\ud83d\ude00ü<&>\u2028\u007f"}}`

// pool is a Sharing that shares all values.
type pool struct {
	texts map[string]string
	trees map[string]map[string]any
}

func (p pool) Text(b []byte) string {
	if known, ok := p.texts[string(b)]; ok {
		return known
	}
	p.texts[string(b)] = string(b)
	return p.texts[string(b)]
}

func (p pool) Fields(raw []byte) (map[string]any, bool) {
	found, ok := p.trees[string(raw)]
	return found, ok
}

func (p pool) Keep(raw []byte, tree map[string]any) { p.trees[string(raw)] = tree }

func (p pool) Bytes(fields map[string]any) ([]byte, bool) {
	for raw, known := range p.trees {
		if reflect.ValueOf(known).UnsafePointer() == reflect.ValueOf(fields).UnsafePointer() {
			return []byte(raw), true
		}
	}
	return nil, false
}

// FuzzParse checks that Parse returns the result of apimachinery's decoder, and ErrUnusual for
// input that the decoder rejects; and that Append writes the result as encoding/json does.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{widget, `{}`, ` { "a" : [ 1 , 2 ] } `, `{"a":01}`, `{"a":-}`, `{"a":1.}`,
		`{"a":"\x"}`, `{"a":"` + "\xff" + `"}`,
		`{"a":1,"a":2}`, `{"a":1e999}`, `{"a":"\ud800"}`, `[1]`, `{"a":1}x`, `{"a"`, `null`,
		`{"a":{"b":"` + "\x01" + `"}}`, `{"fieldsV1":{"a":01}}`,
		`{"fieldsV1":{"b":{},"a":{}}}`, `{"fieldsV1":[{]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want map[string]any
		strict, wantErr := kjson.UnmarshalStrict(data, &want)
		shared := pool{texts: map[string]string{}, trees: map[string]map[string]any{}}
		for name, share := range map[string]tree.Sharing{"alone": nil, "shared": shared} {
			for range 2 { // the second time with values shared from the first
				got, err := tree.Parse(data, share)
				if err != nil {
					continue
				}
				if wantErr != nil || len(strict) > 0 || !reflect.DeepEqual(got, want) {
					t.Fatalf("%s: %v, want %v %v %v", name, got, want, wantErr, strict)
				}
				written, err := tree.Append(nil, got, nil)
				require.NoError(t, err)
				if plain, err := json.Marshal(want); err != nil || string(written) != string(plain) {
					t.Errorf("%s: written as %s, want %s %v", name, written, plain, err)
				}
				again, err := tree.Append(nil, got, shared)
				require.NoError(t, err)
				var back map[string]any
				require.NoError(t, kjson.UnmarshalCaseSensitivePreserveInts(again, &back))
				// Integers written with a decimal point become integers in the next round trip.
				if same, err := json.Marshal(back); err != nil || string(same) != string(written) {
					t.Errorf("%s: read again as %s %v, want %s", name, same, err, written)
				}
			}
		}
	})
}

func TestParseReadsOrdinaryObjects(t *testing.T) {
	_, err := tree.Parse([]byte(widget), nil)
	assert.NoError(t, err)
	for _, text := range []string{`{"a":1,"a":1}`, `{"a":{"b":1,"b":2}}`, `[]`, `{`, `{} {}`,
		strings.Repeat("[", 20000)} {
		if got, err := tree.Parse([]byte(text), nil); err != tree.ErrUnusual {
			t.Errorf("%.40s: %v %v", text, got, err)
		}
	}
}

func TestAppendRejectsOtherTypes(t *testing.T) {
	for _, value := range []any{int32(7), float32(1.5), []string{"a"}, map[string]string{"a": "b"}, json.Number("12"),
		map[string]any(nil), []any(nil), 1e21, 1.0} {
		got, err := tree.Append(nil, map[string]any{"v": value}, nil)
		want, _ := json.Marshal(map[string]any{"v": value})
		if err != nil || string(got) != string(want) {
			t.Errorf("%T: %s %v, want %s", value, got, err, want)
		}
	}
	for _, value := range []any{math.NaN(), make(chan int)} {
		if got, err := tree.Append(nil, map[string]any{"v": []any{value}}, nil); err == nil {
			t.Errorf("%T is written as %s", value, got)
		}
	}
}

// stored is an object as servers store it.
const stored = `{"apiVersion":"bench.kelson.dev/v1","kind":"Widget","metadata":{"creationTimestamp":"2026-01-02T03:04:05Z","generation":1,"managedFields":[{` +
	`"apiVersion":"bench.kelson.dev/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:count":{},"f:labels":{".":{},"f:region":{},"f:stage":{},` +
	`"f:tier":{}},"f:note":{},"f:owner":{},"f:paused":{},"f:steps":{}}},"manager":"bench","operation":"Update","time":"2026-01-02T03:04:05Z"}],` +
	`"name":"w1","namespace":"default","resourceVersion":"1234","uid":"0b8f3b44-3a5c-4b32-9f0c-0a4be7c9e6ab"},"spec":{"count":7,"labels":{` +
	`"region":"north","stage":"canary","tier":"backend"},"note":"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",` +
	`"owner":"team-a","paused":false,"steps":[{"args":["--from","https://example.com/data","--retries","3"],"image":"registry.example.com/fetch:v1.2.3",` +
	`"name":"fetch","replicas":2},{"args":["--target","release"],"image":"registry.example.com/build:v1.2.3","name":"build","replicas":1}]}}`

func BenchmarkParse(b *testing.B) {
	data := []byte(stored)
	b.Run("tree", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := tree.Parse(data, nil)
			require.NoError(b, err)
		}
	})
	b.Run("apimachinery", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var into map[string]any
			require.NoError(b, kjson.UnmarshalCaseSensitivePreserveInts(data, &into))
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	object, err := tree.Parse([]byte(stored), nil)
	require.NoError(b, err)
	b.Run("tree", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, 4096)
		for b.Loop() {
			_, err := tree.Append(buf, object, nil)
			require.NoError(b, err)
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := json.Marshal(object)
			require.NoError(b, err)
		}
	})
}

func TestSameAndDiffer(t *testing.T) {
	list := []any{}
	for _, c := range []struct {
		a, b         any
		same, differ bool
	}{
		{nil, nil, true, false},
		{nil, map[string]any{}, false, false},
		{map[string]any{}, map[string]any{}, true, false},
		{map[string]any{"a": nil}, map[string]any{}, false, true},
		{map[string]any{"a": int64(1)}, map[string]any{"a": int64(1)}, true, false},
		{map[string]any{"a": int64(1)}, map[string]any{"a": int64(2)}, false, true},
		{map[string]any{"a": int64(1)}, map[string]any{"a": 1.0}, false, false},
		{map[string]any{"a": int64(1)}, map[string]any{"b": int64(1)}, false, true},
		{[]any{"a", true}, []any{"a", true}, true, false},
		{[]any{"a", true}, []any{"a", false}, false, true},
		{[]any{"a"}, []any{"a", "b"}, false, true},
		{list, nil, false, false},
		{"a", int64(1), false, false},
		{1.5, 1.5, true, false},
	} {
		if tree.Same(c.a, c.b) != c.same || tree.Same(c.b, c.a) != c.same {
			t.Errorf("%v and %v are the same: want %v", c.a, c.b, c.same)
		}
		if tree.Differ(c.a, c.b) != c.differ || tree.Differ(c.b, c.a) != c.differ {
			t.Errorf("%v and %v differ: want %v", c.a, c.b, c.differ)
		}
	}
	shared := map[string]any{"a": "b"}
	if !tree.Same(shared, shared) {
		t.Error("a tree does not equal itself")
	}
}
