package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/operator/tree"
)

// What decoding and validating takes, in bytes, as measured by TestNeed (kubernetes/controlplane):
// for each byte, each value, each member of an object, and each object. Objects of custom kinds
// take between 0.4 and 1.6 KB; those of built-in ones as much as the Go type that they are decoded
// into, its defaults and its errors, which for an empty container are 10 KB.
const (
	perByte     = 6
	perValue    = 192
	perMember   = 512
	perObject   = 3 << 10
	perYAMLNode = 320
	perYAMLKey  = 1280
)

// maxYAMLNodes bounds the nodes of a YAML document: 3 MiB of them would take more than a gigabyte,
// and seconds. The nodes are counted by the characters that begin one, wherever they stand.
const maxYAMLNodes = 500_000

// Need estimates the memory, in bytes, that decoding a body takes. It looks at each byte once, and
// reads only documents of YAML with aliases. Errors are those of a document that must not be
// decoded: one with too many nodes, or with aliases that expand to more than most bytes.
func Need(contentType string, body []byte, most int64) (int64, error) {
	size := int64(len(body)) * perByte
	switch {
	case strings.Contains(contentType, "yaml"):
		nodes, keys, maps := nodesOf(body)
		if nodes+keys+maps > maxYAMLNodes {
			return 0, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d YAML nodes", maxYAMLNodes))
		}
		if err := expands(body, most); err != nil {
			return 0, err
		}
		return size + nodes*perYAMLNode + keys*perYAMLKey + maps*(perYAMLKey+perObject), nil
	case strings.Contains(contentType, "protobuf"):
		body, _ = bytes.CutPrefix(body, []byte(protobufMagic))
		fields, _ := messageFields(body, 0)
		return size + fields*perObject, nil
	case strings.Contains(contentType, "cbor"):
		values, objects := itemsOf(body)
		return size + values*perValue + objects*perObject, nil
	}
	need := size + (count(body, ',')+count(body, '['))*perValue + count(body, ':')*perMember + count(body, '{')*perObject
	if need > suspicious {
		values, members, objects := membersOf(body)
		need = size + values*perValue + members*perMember + objects*perObject
	}
	return need, nil
}

// suspicious is an estimate for a body of JSON from which on it pays to look more closely: brackets
// may stand within strings.
const suspicious = 32 << 20

// membersOf counts the values, the members and the objects of a JSON document, up to where it is
// nested deeper than decoders follow.
func membersOf(body []byte) (values, members, objects int64) {
	depth := 0
	for _, mark := range tree.Marks(body) {
		switch mark {
		case '{':
			objects++
			depth++
		case '[':
			values++
			depth++
		case ',':
			values++
		case ':':
			members++
		case '}', ']':
			depth--
		}
		if depth > MaxDepth {
			break
		}
	}
	return values, members, objects
}

// nodesOf counts the characters of YAML that nodes begin with: those of items, of keys, and of maps
// in braces. Other nodes need no more than one of these each.
func nodesOf(body []byte) (items, keys, maps int64) {
	for i, c := range body {
		switch c {
		case ',', '[':
			items++
		case '-': // before a space, or any line break
			if i+1 == len(body) || body[i+1] <= ' ' || body[i+1] >= 0x80 {
				items++
			}
		case ':', '?':
			keys++
		case '{':
			maps++
		}
	}
	return items, keys, maps
}

func count(body []byte, c byte) int64 { return int64(bytes.Count(body, []byte{c})) }

// itemsOf counts the items of CBOR, and the maps among them, up to what is not well-formed, or
// nested deeper than decoders follow without anything between the levels.
func itemsOf(body []byte) (values, objects int64) {
	for depth := 0; len(body) > 0 && depth <= MaxDepth; {
		major, info := body[0]>>5, body[0]&31
		body = body[1:]
		argument := uint64(info)
		if info >= 24 && info <= 27 {
			size := 1 << (info - 24)
			if len(body) < size {
				return values, objects
			}
			var whole [8]byte
			copy(whole[8-size:], body[:size])
			argument, body = binary.BigEndian.Uint64(whole[:]), body[size:]
		}
		values++
		switch {
		case major < 4 || major == 7 || argument == 0:
			depth = 0
		case major < 6:
			depth++
		}
		switch major {
		case 2, 3: // strings; those of unknown length consist of others
			if info == 31 {
				continue
			}
			if argument > uint64(len(body)) {
				return values, objects
			}
			body = body[argument:]
		case 5:
			objects++
		}
	}
	return values, objects
}
