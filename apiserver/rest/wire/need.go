package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/internal/tree"
)

// The memory in bytes that decoding and validating takes for each byte, each value, each member of
// an object, and each object. TestNeed (kubernetes/controlplane) measures it with -measure. A JSON
// object in a custom resource takes 0.4 to 1.6 KB. In built-in kinds it takes the memory of its Go
// type, its defaults and its errors: 1.5 to 3 KB for a container, a volume or a webhook, and 4 KB
// for an empty schema of a CustomResourceDefinition.
const (
	perByte     = 6
	perValue    = 192
	perMember   = 512
	perObject   = 4 << 10
	perYAMLNode = 320
	perYAMLKey  = 1280
)

// maxYAMLNodes limits the nodes of a YAML document. Decoding 3 MiB that consist of small nodes
// would take more than a gigabyte and several seconds. The count includes all characters that can
// begin a node, even within strings.
const maxYAMLNodes = 500_000

// Need estimates the memory, in bytes, that decoding a body takes. It reads each byte once and
// parses only YAML documents with aliases. It returns an error if the document must not be decoded:
// because it has too many nodes, or because its aliases expand to more bytes than most.
func Need(contentType string, body []byte, most int64) (int64, error) {
	media := baseType(contentType)
	size := int64(len(body)) * perByte
	switch {
	case strings.Contains(media, "yaml"):
		nodes, keys, maps := nodesOf(body)
		if nodes+keys+maps > maxYAMLNodes {
			return 0, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d YAML nodes", maxYAMLNodes))
		}
		if err := checkExpansion(body, most); err != nil {
			return 0, err
		}
		return size + nodes*perYAMLNode + keys*perYAMLKey + maps*(perYAMLKey+perObject), nil
	case strings.Contains(media, "protobuf"):
		body, _ = bytes.CutPrefix(body, []byte(protobufMagic))
		fields, _ := messageFields(body, 0)
		return size + fields*perObject, nil
	case strings.Contains(media, "cbor"):
		values, objects := itemsOf(body)
		return size + values*perValue + objects*perObject, nil
	}
	need := size + (count(body, ',')+count(body, '['))*perValue + count(body, ':')*perMember +
		count(body, '{')*perObject
	if need > suspicious {
		values, members, objects := membersOf(body)
		need = size + values*perValue + members*perMember + objects*perObject
	}
	return need, nil
}

// suspicious is the estimate for a JSON body above which Need counts again without the contents of
// strings, because they may contain brackets.
const suspicious = 32 << 20

// membersOf counts the values, members and objects of a JSON document, up to a place that is nested
// too deeply for decoders.
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

// nodesOf counts the characters with which nodes of YAML begin: those of items, of keys, and of
// maps in braces. Every other node needs one of these.
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

// itemsOf counts the items of a CBOR document, and the maps among them, up to malformed data or a
// place that is nested too deeply for decoders.
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
