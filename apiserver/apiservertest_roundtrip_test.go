package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/apiservertest"
)

type hub struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	A, B              string
	List              []string
}

func (h *hub) DeepCopyObject() runtime.Object {
	out := *h
	h.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// good has all fields of the hub, in another order.
type good struct{ hub }

func (g *good) DeepCopyObject() runtime.Object { return &good{*g.hub.DeepCopyObject().(*hub)} }
func (g *good) ConvertTo(h *hub) error         { *h = g.hub; return nil }
func (g *good) ConvertFrom(h *hub) error       { g.hub = *h; return nil }

// lossy drops a field.
type lossy struct{ good }

func (l *lossy) DeepCopyObject() runtime.Object {
	return &lossy{*l.good.DeepCopyObject().(*good)}
}

func (l *lossy) ConvertFrom(h *hub) error {
	l.hub = *h
	l.B = ""
	return nil
}

// forgetful drops metadata.
type forgetful struct{ good }

func (f *forgetful) DeepCopyObject() runtime.Object {
	return &forgetful{*f.good.DeepCopyObject().(*good)}
}

func (f *forgetful) ConvertTo(h *hub) error {
	*h = f.hub
	h.Labels = nil
	return nil
}

// recorder is a testing.TB that records failures.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// A conversion that loses a field fails the test; a lossless one passes.
func TestRoundTrip(t *testing.T) {
	apiservertest.RoundTrip(t, &good{}, &hub{})
	for name, test := range map[string]struct {
		run  func(testing.TB)
		want string
	}{
		"field":    {func(t testing.TB) { apiservertest.RoundTrip(t, &lossy{}, &hub{}) }, `"B": ""`},
		"metadata": {func(t testing.TB) { apiservertest.RoundTrip(t, &forgetful{}, &hub{}) }, `"labels"`},
	} {
		r := &recorder{TB: t}
		test.run(r)
		if len(r.failures) != 1 || !strings.Contains(r.failures[0], test.want) ||
			!strings.Contains(r.failures[0], "changed in round") {
			t.Errorf("%s: %q", name, r.failures)
		}
	}
}
