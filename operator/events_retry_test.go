package operator_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
	"kelson.dev/operator/internal/apitest"
)

// outage is a transport whose first writes fail, before or after the server has executed them.
type outage struct {
	http.RoundTripper
	failures int
	executed bool
}

func (o *outage) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet || o.failures == 0 {
		return o.RoundTripper.RoundTrip(req)
	}
	o.failures--
	if o.executed {
		if resp, err := o.RoundTripper.RoundTrip(req); err == nil {
			resp.Body.Close()
		}
	}
	return nil, errors.New("connection refused")
}

// An event is not lost while the server cannot be reached, and is written once, also if only the
// response was lost. After two minutes it is dropped, so that later ones are written.
func TestOutage(t *testing.T) {
	for name, test := range map[string]struct {
		failures int
		executed bool
		fault    int // status of the failures instead
		want     []string
	}{
		"one request":       {failures: 1, want: []string{"first", "second"}},
		"many requests":     {failures: 10, want: []string{"first", "second"}},
		"lost response":     {failures: 1, executed: true, want: []string{"first", "second"}},
		"too many requests": {fault: http.StatusTooManyRequests, failures: 5, want: []string{"first", "second"}},
		"forbidden":         {fault: http.StatusForbidden, failures: 1, want: []string{"second"}},
		"long":              {failures: 25, want: []string{"second"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := apitest.New()
				cfg := s.REST()
				if test.fault != 0 {
					s.SetFaults(apitest.Faults{Fail: func(verb, _ string) (int, metav1.StatusReason) {
						if test.failures == 0 || verb == http.MethodGet {
							return 0, ""
						}
						test.failures--
						return test.fault, map[int]metav1.StatusReason{429: metav1.StatusReasonTooManyRequests,
							403: metav1.StatusReasonForbidden}[test.fault]
					}})
				} else {
					cfg.Transport = &outage{cfg.Transport, test.failures, test.executed}
				}
				c, err := client.New(client.Config{REST: cfg})
				must(t, err)
				b := events.New(events.Config{Client: c})
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _ = b.Run(ctx) }()
				recorder := b.Recorder("test")
				recorder.Event(pod("a"), "Warning", "First", "first")
				recorder.Event(pod("a"), "Normal", "Second", "second")
				time.Sleep(10 * time.Minute)
				cancel()
				synctest.Wait()
				var list corev1.EventList
				must(t, c.List(context.Background(), &list))
				var got []string
				for _, e := range list.Items {
					got = append(got, e.Message)
					assert.Equalf(t, e.Count, 1, "%s has the count", e.Message)
				}
				if slices.Sort(got); !slices.Equal(got, test.want) {
					t.Errorf("events: %v, want %v", got, test.want)
				}
			})
		})
	}
}
