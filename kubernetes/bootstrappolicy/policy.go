package bootstrappolicy

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
)

//go:generate go test ../apitest -run TestPolicyText -update

// text has the objects of the policy in their stored form, one per line: resource, namespace or
// "-", name, JSON. Marks replace the values that differ between control planes. A second line for
// an object has an aggregated role with its rules.
//
//go:embed policy.txt
var text string

// The marks.
const (
	markUID      = "<uid>"
	markTime     = "<time>"
	markRevision = "<revision>"
)

// object is an object of the policy.
type object struct {
	key store.Key
	// posted is the object in the form in which a client's POST would store it. aggregated, if not
	// nil, also contains the rules that the cluster role aggregation controller adds.
	posted, aggregated template
}

// policy parses text once; it is the same for all control planes.
var policy = sync.OnceValue(func() []*object {
	var all []*object
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) != 4 {
			panic(fmt.Sprintf("policy.txt: not an object: %s", line))
		}
		key := store.Key{Resource: fields[0], Namespace: strings.TrimPrefix(fields[1], "-"), Name: fields[2]}
		if n := len(all); n > 0 && all[n-1].key == key {
			all[n-1].aggregated = parse(fields[3])
			continue
		}
		all = append(all, &object{key: key, posted: parse(fields[3])})
	}
	return all
})

// template is an object's JSON, split at its marks.
type template []part

// part is a piece of text and the mark after it; the last part has no mark.
type part struct{ text, mark string }

func parse(s string) template {
	var t template
	for {
		before, mark, after := cut(s)
		t = append(t, part{before, mark})
		if mark == "" {
			return t
		}
		s = after
	}
}

// fill returns the JSON of a new object.
func (t template) fill(uid types.UID, now string) []byte {
	size := 0
	for _, p := range t {
		size += len(p.text) + max(len(uid), len(now))
	}
	out := make([]byte, 0, size)
	for _, p := range t {
		out = append(out, p.text...)
		switch p.mark {
		case markUID:
			out = append(out, uid...)
		case markTime:
			out = append(out, now...)
		case markRevision:
			out = append(out, '1') // the store replaces it
		}
	}
	return out
}

// matches reports whether a stored object is unchanged since it was created from the template.
func (t template) matches(data []byte) bool {
	for _, p := range t {
		if len(data) < len(p.text) || string(data[:len(p.text)]) != p.text {
			return false
		}
		if data = data[len(p.text):]; p.mark == "" {
			break
		}
		end := bytes.IndexByte(data, '"')
		if end < 0 {
			return false
		}
		data = data[end:]
	}
	return t != nil && len(data) == 0
}

// cut splits a text at its first mark.
func cut(s string) (before, mark, after string) {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '<')
		if i < 0 {
			return s, "", ""
		}
		i += from
		for _, mark := range [...]string{markUID, markTime, markRevision} {
			if strings.HasPrefix(s[i:], mark) {
				return s[:i], mark, s[i+len(mark):]
			}
		}
		from = i + 1
	}
}
