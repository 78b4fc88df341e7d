package rest

import "bytes"

// setRevision returns a stored object with another resourceVersion. data has one: the store puts it into every object.
func setRevision(data []byte, revision string) []byte {
	start, end, ok := revisionSpan(data)
	if !ok {
		return data
	}
	out := make([]byte, 0, len(data)+len(revision))
	out = append(append(out, data[:start]...), revision...)
	return append(out, data[end:]...)
}

// sameButRevision says whether two stored objects are equal but for the resourceVersion, if that stands at the same place in both.
func sameButRevision(a, b []byte) bool {
	as, ae, aok := revisionSpan(a)
	bs, be, bok := revisionSpan(b)
	if !aok || !bok {
		return aok == bok && bytes.Equal(a, b)
	}
	return bytes.Equal(a[:as], b[:bs]) && bytes.Equal(a[ae:], b[be:])
}

// revisionSpan finds the characters of metadata.resourceVersion, between the quotation marks, in an object as JSON without
// superfluous space. ok is false when there is none.
func revisionSpan(data []byte) (start, end int, ok bool) {
	start, end, ok = member(data, "metadata")
	if !ok {
		return 0, 0, false
	}
	vs, ve, ok := member(data[start:end], "resourceVersion")
	if !ok || ve-vs < 2 || data[start+vs] != '"' {
		return 0, 0, false
	}
	return start + vs + 1, start + ve - 1, true
}

// member finds the value of a member of a JSON object.
func member(data []byte, name string) (start, end int, ok bool) {
	i := skipSpace(data, 0)
	if i >= len(data) || data[i] != '{' {
		return 0, 0, false
	}
	for i++; i < len(data); i++ {
		i = skipSpace(data, i)
		if i >= len(data) || data[i] != '"' {
			return 0, 0, false
		}
		keyEnd := skipValue(data, i)
		key := data[i+1 : max(i+1, keyEnd-1)]
		i = skipSpace(data, keyEnd)
		if i >= len(data) || data[i] != ':' {
			return 0, 0, false
		}
		start = skipSpace(data, i+1)
		end = skipValue(data, start)
		if string(key) == name {
			return start, end, true
		}
		i = skipSpace(data, end)
		if i >= len(data) || data[i] != ',' {
			return 0, 0, false
		}
	}
	return 0, 0, false
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the index after the JSON value that begins at i.
func skipValue(data []byte, i int) int {
	depth := 0
	for ; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(data))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				if depth < 0 {
					return i // the end of what contains a bare value
				}
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return len(data)
}
