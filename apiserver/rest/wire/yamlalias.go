package wire

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// checkExpansion returns an error for a YAML document whose aliases expand to more than limit
// bytes. The YAML library limits the number of nodes from aliases but not their size: a document
// can refer to a string of a megabyte with half a million aliases.
func checkExpansion(body []byte, limit int64) error {
	if !isUTF16(body) && (!mayHave(body, '&') || !mayHave(body, '*')) {
		return nil
	}
	var document yaml.Node
	if err := yaml.Unmarshal(body, &document); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if (&expansion{sizes: map[*yaml.Node]int64{}, limit: limit}).size(&document) > limit {
		return apierrors.NewBadRequest("yaml: document contains excessive aliasing")
	}
	return nil
}

// isUTF16 reports whether a document is written in UTF-16.
func isUTF16(body []byte) bool {
	return bytes.HasPrefix(body, []byte("\xff\xfe")) || bytes.HasPrefix(body, []byte("\xfe\xff"))
}

// mayHave reports whether a document may have an anchor (sign &) or an alias (sign *): the sign at
// a place where a value can begin, followed by a name.
func mayHave(body []byte, sign byte) bool {
	for from := 0; ; {
		i := bytes.IndexByte(body[from:], sign)
		if i < 0 {
			return false
		}
		i += from
		from = i + 1
		if from < len(body) && isName(body[from]) &&
			(i == 0 || strings.IndexByte(" \t\r\n[]{},:-?!&*\"'", body[i-1]) >= 0 || body[i-1] >= 0x80) {
			return true
		}
	}
}

func isName(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || c == '-' || c >= 0x80
}

// expansion computes the sizes of nodes with all aliases expanded.
type expansion struct {
	sizes map[*yaml.Node]int64 // sizes of anchored nodes
	limit int64
}

// size returns the size of a node, or any size above the limit if the node is larger than that. The
// library rejects nodes that contain themselves.
func (e *expansion) size(n *yaml.Node) int64 {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil {
		return 0
	}
	if size, ok := e.sizes[n]; ok {
		return size
	}
	if n.Anchor != "" {
		e.sizes[n] = 0
	}
	size := int64(len(n.Value)) + 1
	for _, child := range n.Content {
		if size += e.size(child); size > e.limit {
			size = e.limit + 1
			break
		}
	}
	if n.Anchor != "" {
		e.sizes[n] = size
	}
	return size
}
