package reconcile

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// checkedShapes remembers which fields of a status the server has been asked to look for in its schema, which costs it a tenth of a write:
// it warns of those that it does not know, and drops them. The answer is the same for all objects, and for a while.
type checkedShapes struct {
	mu     sync.Mutex
	shapes map[string]time.Time
}

const (
	checkAgain = 10 * time.Minute
	maxShapes  = 256
	// maxShape is how long the names of the fields may be altogether.
	maxShape = 4096
)

func (c *checkedShapes) recently(shape string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.shapes[shape]
	return ok && time.Since(at) < checkAgain
}

// note remembers a shape that was just checked, unless it was not because that was recently.
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

// shapeOf is the names of all fields of a document, without their values; empty if they are too many.
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
