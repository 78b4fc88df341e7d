package explore

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
)

// Without a terminal, a build prints a line at its beginning, after each half minute and at its
// end, and no carriage returns.
func TestBuilding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := newBuilding(&out)
		time.Sleep(31 * time.Second)
		b.compiling("example.com/a")
		b.compiling("example.com/b")
		time.Sleep(31 * time.Second)
		b.done(nil)
		const want = `building the operator
building the operator: reading its packages, or linking, 30s
building the operator: 2 packages compiled, the last one example.com/b, 1m0s
built the operator in 1m2s
`
		assert.Equalf(t, out.String(), want, "the build prints")
	})
}
