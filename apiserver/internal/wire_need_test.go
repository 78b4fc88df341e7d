package internal_test

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"kelson.dev/apiserver/rest/wire"
)

const mebi = 1 << 20

// Need recognizes bodies that take much more memory than their size when they are decoded. Its
// estimate for bodies with few large values stays low.
func TestNeed(t *testing.T) {
	const protobufMagic = "k8s\x00"
	blob := strings.Repeat("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo", mebi/35)
	lines := strings.Repeat("key-1: some value, and more of it\n", 1000)
	field := func(number int, value []byte) []byte {
		out := binary.AppendUvarint(nil, uint64(number)<<3|2)
		return append(binary.AppendUvarint(out, uint64(len(value))), value...)
	}
	for _, test := range []struct {
		what, media string
		body        string
		least, most int64 // MiB
	}{
		{"a large value in JSON", "application/json", `{"data":{"a":"` + blob + `"}}`, 1, 8},
		{"values in JSON", "application/json", `[` + strings.Repeat("0,", mebi/2) + `0]`, 90, 120},
		{"objects in JSON", "application/json", `{"containers":[` + strings.Repeat("{},", 50_000) + `{}]}`, 190, 260},
		{"much JSON in a string", "application/json", `{"data":{"a":"` + strings.Repeat(`{\"\":{}}`, 100_000) +
			`\\"},"b":[{},{}]}`, 1, 8},
		{"deep JSON", "application/json", strings.Repeat(`{"a":`, 500_000), 1, 60},
		{"a large value in YAML", "application/yaml", "data: {a: " + blob + "}", 1, 8},
		{"lines of text in YAML", "application/apply-patch+yaml",
			"data:\n  a: |\n    " + strings.ReplaceAll(lines, "\n", "\n    "), 1, 8},
		{"values in YAML", "application/yaml", "a: [" + strings.Repeat("a,", 400_000) + "a]", 120, 200},
		{"maps in YAML", "application/yaml", "a:\n" + strings.Repeat("- a:\n", 100_000), 120, 250},
		{"maps in YAML after carriage returns", "application/yaml", "a:\r" + strings.Repeat("- a:\r", 100_000), 120,
			250},
		{"a large value in protobuf", "application/vnd.kubernetes.protobuf",
			protobufMagic + string(field(2, field(1, []byte(blob)))), 1, 60},
		{"messages in protobuf", "application/vnd.kubernetes.protobuf",
			protobufMagic + string(field(2, field(2, bytes.Repeat(field(2, nil), 100_000)))), 350, 450},
		{"messages in protobuf, in capitals", "application/VND.Kubernetes.Protobuf",
			protobufMagic + string(field(2, field(2, bytes.Repeat(field(2, nil), 100_000)))), 350, 450},
		{"messages in protobuf, with a parameter", "application/vnd.kubernetes.protobuf; x=yaml",
			protobufMagic + string(field(2, field(2, bytes.Repeat(field(2, nil), 100_000)))), 350, 450},
		{"values in YAML, in capitals", " Application/YAML ;a=b", "a: [" + strings.Repeat("a,", 400_000) + "a]", 120,
			200},
		{"a large value in CBOR", "application/cbor",
			string(append(binary.BigEndian.AppendUint32([]byte{0xa1, 0x61, 'a', 0x7a}, uint32(3*(mebi/3))),
				strings.Repeat("中", mebi/3)...)), 1, 8},
		{"objects in CBOR", "application/cbor", string(binary.BigEndian.AppendUint32([]byte{0x9a}, 100_000)) +
			strings.Repeat("\xa0", 100_000), 350, 450},
		{"arrays in CBOR", "application/cbor", string(binary.BigEndian.AppendUint32([]byte{0x9a}, mebi)) +
			strings.Repeat("\x80", mebi), 190, 210},
	} {
		need, err := wire.Need(test.media, []byte(test.body), 3*mebi)
		if err != nil || need>>20 < test.least || need>>20 > test.most {
			t.Errorf("%s: %d bytes need %d MiB (want %d to %d), %v", test.what, len(test.body), need>>20, test.least,
				test.most, err)
		}
	}
}

// Bodies that must not reach a decoder.
func TestExcessiveYAML(t *testing.T) {
	text := strings.Repeat("x", 100_000)
	inUTF16 := func(s string) string {
		out := []byte{0xff, 0xfe}
		for _, c := range utf16.Encode([]rune(s)) {
			out = binary.LittleEndian.AppendUint16(out, c)
		}
		return string(out)
	}
	for _, test := range []struct {
		what, body string
		code       int32
	}{
		{"many values", "a: [" + strings.Repeat("a,", mebi) + "a]", http.StatusRequestEntityTooLarge},
		{"many lines", "a:\n" + strings.Repeat("- a\n", 600_000), http.StatusRequestEntityTooLarge},
		{"a string with many aliases", `a: &a "` + text + "\"\nb: [" + strings.Repeat("*a,", 100) + "*a]",
			http.StatusBadRequest},
		{"the same in UTF-16", inUTF16(`a: &a "` + text + "\"\nb: [" + strings.Repeat("*a,", 100) + "*a]"),
			http.StatusBadRequest},
		{"as items", `a: &a "` + text + "\"\nb:\n" + strings.Repeat("- *a\n", 100), http.StatusBadRequest},
		{"aliases of aliases", "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f]", http.StatusBadRequest},
		{"merged maps", "a: &a {k: " + text + "}\nb:\n" + strings.Repeat("- {<<: *a}\n", 100), http.StatusBadRequest},
		{"few aliases", `a: &a "` + text + "\"\nb: [*a, *a, *a]", 0},
		{"an anchor within itself", "a: &a [*a, *a]", 0}, // the decoder refuses it
		{"a script", "data:\n  run: |\n    a && b; ls *.yaml; c &d *e", 0},
		{"no aliases", "metadata: {name: a&b, annotations: {schedule: '*/5 * * * *'}}", 0},
	} {
		_, err := wire.Need("application/yaml", []byte(test.body), 3*mebi)
		code := int32(0)
		if err != nil {
			code = err.(apierrors.APIStatus).Status().Code
		}
		if code != test.code {
			t.Errorf("%s: %v, want code %d", test.what, err, test.code)
		}
	}
}

// If Need accepts a YAML document with aliases, its JSON is at most twenty times the limit.
func FuzzExpansion(f *testing.F) {
	f.Add("a: &a xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nb: [*a, *a]\nc: {<<: {a: *a}}")
	f.Add("a: &a [x]\nb: &b [*a, *a]\n'*c': \"&d\"\nf: !!str &f\ng: *f")
	f.Add("\xff\xfea\x00:\x00 \x00&\x00a\x00 \x00x\x00")
	const most = 200
	f.Fuzz(func(t *testing.T, doc string) {
		if len(doc) > most/4 {
			return
		}
		if _, err := wire.Need("application/yaml", []byte(doc), most); err != nil {
			return
		}
		if out, err := yaml.YAMLToJSON([]byte(doc)); err == nil && len(out) > 20*most {
			t.Errorf("%q becomes %d bytes", doc, len(out))
		}
	})
}
