package rest

import (
	"bytes"

	"kelson.dev/internal/tree"
)

// setRevision returns a stored object with another resourceVersion. data has one: the store puts it
// into every object.
func setRevision(data []byte, revision string) []byte {
	start, end, ok := revisionSpan(data)
	if !ok {
		return data
	}
	out := make([]byte, 0, len(data)+len(revision))
	out = append(append(out, data[:start]...), revision...)
	return append(out, data[end:]...)
}

// sameButRevision reports whether two stored objects differ at most in the resourceVersion, which
// must be at the same place in both.
func sameButRevision(a, b []byte) bool {
	as, ae, aok := revisionSpan(a)
	bs, be, bok := revisionSpan(b)
	if !aok || !bok {
		return aok == bok && bytes.Equal(a, b)
	}
	return bytes.Equal(a[:as], b[:bs]) && bytes.Equal(a[ae:], b[be:])
}

// revisionSpan returns the position of the text of metadata.resourceVersion, without the quotes. ok
// is false if there is none.
func revisionSpan(data []byte) (start, end int, ok bool) {
	p := tree.Parser{Data: data}
	for _, name := range [...]string{"metadata", "resourceVersion"} {
		if found, err := p.Member(name); !found || err != nil {
			return 0, 0, false
		}
	}
	if p.Peek() != '"' {
		return 0, 0, false
	}
	start = p.At + 1
	if _, _, err := p.Quoted(); err != nil {
		return 0, 0, false
	}
	return start, p.At - 1, true
}
