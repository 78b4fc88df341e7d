package reconcile

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// checkedShapes records which sets of status fields the server has validated against its schema,
// which takes a tenth of the cost of a write. The server warns about unknown fields and drops them.
// The result is the same for all objects with these fields, until the schema changes.
type checkedShapes struct {
	mu     sync.Mutex
	shapes map[string]time.Time
}

const (
	checkAgain = 10 * time.Minute
	maxShapes  = 256
	// maxShape bounds the total length of the field names.
	maxShape = 4096
)

func (c *checkedShapes) recently(shape string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.shapes[shape]
	return ok && time.Since(at) < checkAgain
}

// note records a shape that was just validated. It keeps the time of a recent validation, because
// the write then skipped it.
func (c *checkedShapes) note(shape string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.shapes[shape]; ok && time.Since(at) < checkAgain || shape == "" {
		return
	}
	if c.shapes == nil || len(c.shapes) >= maxShapes {
		c.shapes = map[string]time.Time{}
	}
	c.shapes[shape] = time.Now()
}

// shapeOf returns the names of all fields of a document, without their values; empty if they are
// too long.
func shapeOf(document map[string]any) string {
	var b strings.Builder
	writeShape(&b, document)
	if b.Len() > maxShape {
		return ""
	}
	return b.String()
}

func writeShape(b *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.WriteByte('{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if b.Len() > maxShape {
				return
			}
			b.WriteString(name)
			b.WriteByte(0)
			writeShape(b, v[name])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for _, element := range v {
			writeShape(b, element)
		}
		b.WriteByte(']')
	}
}
