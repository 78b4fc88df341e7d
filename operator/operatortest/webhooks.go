package operatortest

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kelson.dev/operator/client"
	"kelson.dev/operator/manager"
)

// registrations are the webhooks of the operators of an Env.
type registrations struct {
	registrar client.Client

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	missing [][]string    // of each operator; nil elements are complete
	begun   []bool        // whether the operator has reported its webhooks
}

// of returns the configuration for one more operator.
func (r *registrations) of() manager.WebhookConfig {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.missing)
	r.missing, r.begun = append(r.missing, nil), append(r.begun, false)
	return manager.WebhookConfig{Local: true, Address: "127.0.0.1:0", Registrar: r.registrar,
		Progress: func(missing []string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.missing[i], r.begun[i] = missing, true
			close(r.changed)
			r.changed = make(chan struct{})
		}}
}

// state returns the webhooks that are not registered, whether all operators have reported theirs,
// and a channel that is closed at the next change.
func (r *registrations) state() (missing []string, begun bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.missing...), len(r.begun) > 0 && !slices.Contains(r.begun, false), r.changed
}

// AwaitWebhooks waits until the webhooks of all operators that called [WebhookConfig], as those of
// [Operator] do, are registered: until then, writes do not call them, and a definition may not be
// converted. It fails the test after a minute.
func (e *Env) AwaitWebhooks(t testing.TB) {
	t.Helper()
	if e.registrations == nil {
		t.Fatal("operatortest: AwaitWebhooks needs the option Webhooks")
	}
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	for {
		missing, begun, changed := e.registrations.state()
		if begun && len(missing) == 0 {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			if len(missing) == 0 {
				t.Fatal("operatortest: no operator has begun to register webhooks")
			}
			t.Fatalf("operatortest: after a minute, these webhooks are not registered: %s", strings.Join(missing, ", "))
		case <-t.Context().Done():
			t.Fatal("operatortest: the test has ended")
		}
	}
}
