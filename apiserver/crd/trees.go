package crd

import (
	"bytes"
	"encoding/json"
	"sync"

	"kelson.dev/operator/tree"
)

// parseTree reads a JSON object with the parser of package tree. After an error the caller must use
// the library's parser, which accepts more and explains what it refuses.
func (c *compiled) parseTree(data []byte) (map[string]any, error) {
	if c.noFastPaths {
		return nil, tree.ErrUnusual
	}
	return c.fields.Parse(data)
}

// encodeTree returns an object as JSON, as encoding/json writes it. The caller owns the result.
func (c *compiled) encodeTree(object map[string]any) ([]byte, error) {
	if c.noFastPaths {
		return json.Marshal(object)
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	data, err := tree.Append((*buffer)[:0], object, c.fields)
	if err != nil {
		return nil, err
	}
	if cap(data) <= largestBuffer {
		*buffer = data
	}
	return bytes.Clone(data), nil
}

// buffers hold an object while it is encoded, so that the stored copy has no spare capacity.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// largestBuffer is the capacity, in bytes, above which a buffer is not reused.
const largestBuffer = 64 << 10
