package rest

import (
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
)

// A watch of a resource with many watches sends events at intervals. The more watches there are,
// the longer the interval, up to a limit. The wait ends with the request.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all crowds
		done := make(chan struct{})
		waited := func(p *pace) time.Duration {
			begin := time.Now()
			if !p.wait(done) {
				t.Error("wait returned before the interval had passed")
			}
			return time.Since(begin)
		}
		p := &pace{crowd: all.join("pods")}
		p.sent()
		assert.Equalf(t, waited(p), 0, "alone")
		for range 49 {
			all.join("pods")
		}
		other := &pace{crowd: all.join("nodes")}
		other.sent()
		p.sent()
		assert.Equalf(t, waited(p), 5*time.Millisecond, "wait of a watch among fifty")
		assert.Equalf(t, waited(p), 0, "second wait, without a send in between")
		assert.Equalf(t, waited(other), 0, "wait of a watch of another resource")
		for range 9900 {
			all.join("pods")
		}
		p.sent()
		assert.Equalf(t, waited(p), maxPace, "wait of a watch among ten thousand")
		p.sent()
		close(done)
		if p.wait(done) {
			t.Error("the wait did not end with the request")
		}
		p.end()
	})
}
