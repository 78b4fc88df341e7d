package rest

import (
	"testing"
	"testing/synctest"
	"time"
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
		if d := waited(p); d != 0 {
			t.Errorf("alone: %s", d)
		}
		for range 49 {
			all.join("pods")
		}
		other := &pace{crowd: all.join("nodes")}
		other.sent()
		p.sent()
		if d := waited(p); d != 5*time.Millisecond {
			t.Errorf("wait of a watch among fifty: %s", d)
		}
		if d := waited(p); d != 0 {
			t.Errorf("second wait, without a send in between: %s", d)
		}
		if d := waited(other); d != 0 {
			t.Errorf("wait of a watch of another resource: %s", d)
		}
		for range 9900 {
			all.join("pods")
		}
		p.sent()
		if d := waited(p); d != maxPace {
			t.Errorf("wait of a watch among ten thousand: %s", d)
		}
		p.sent()
		close(done)
		if p.wait(done) {
			t.Error("the wait did not end with the request")
		}
		p.end()
	})
}
