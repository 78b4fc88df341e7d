package inside

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/internal/require"
)

// A process answers the renewals of its Lease itself, in JSON and protobuf, and only those: not if
// another client uses the Lease, and no update that changes more.
func TestLeases(t *testing.T) {
	const path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/operator"
	const query = "timeout=5s"
	if !isLease(path) || isLease(path+"/status") || isLease("/apis/coordination.k8s.io/v1/leases") {
		t.Error("isLease does not find the paths of Leases")
	}
	me, other, seconds := "a", "b", int32(15)
	at := metav1.NewMicroTime(time.Date(2000, 1, 1, 0, 0, 7, 1000, time.UTC))
	held := &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: "operator", Namespace: "default", ResourceVersion: "7",
			Labels: map[string]string{"a": "b"}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &me, LeaseDurationSeconds: &seconds,
			AcquireTime: &at, RenewTime: &at}}
	for _, mediaType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
		put := func(change func(*coordinationv1.Lease)) *Message {
			changed := held.DeepCopy()
			change(changed)
			var body strings.Builder
			encoder := scheme.Codecs.EncoderForVersion(info.Serializer, coordinationv1.SchemeGroupVersion)
			require.NoError(t, encoder.Encode(changed, &body))
			return &Message{Method: "PUT", Body: []byte(body.String())}
		}
		renewed := func(seconds int) func(*coordinationv1.Lease) {
			return func(l *coordinationv1.Lease) {
				l.Spec.RenewTime = &metav1.MicroTime{Time: at.Add(time.Duration(seconds) * time.Second)}
			}
		}
		l := &leases{own: true, byPath: map[string]*lease{}}
		get := &Message{Method: "GET"}
		if l.answer(get, path, query) != nil || l.answer(put(renewed(2)), path, query) != nil {
			t.Errorf("%s: the process answers for a Lease that it does not have", mediaType)
		}
		answer := func(m *Message) { // by the control plane
			body, _ := json.Marshal(held)
			resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(string(body)))}
			l.follow(m, path, resp)
			_, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
		}
		answer(put(func(*coordinationv1.Lease) {}))
		for _, step := range []struct {
			m    *Message
			want int
		}{{put(renewed(2)), 2}, {get, 2}, {put(renewed(4)), 4}, {get, 4}} {
			resp := l.answer(step.m, path, query)
			if resp == nil {
				t.Fatalf("%s: no response to a %s", mediaType, step.m.Method)
			}
			var got coordinationv1.Lease
			require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
			after := got.Spec.RenewTime.Sub(at.Time)
			if after != time.Duration(step.want)*time.Second || got.ResourceVersion != "7" ||
				*got.Spec.HolderIdentity != me {
				t.Errorf("%s: %s: renewed after %v, want %d s", mediaType, step.m.Method, after, step.want)
			}
		}
		for name, m := range map[string]*Message{
			"another holder":   put(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &other }),
			"another revision": put(func(l *coordinationv1.Lease) { l.ResourceVersion = "6" }),
			"no revision":      put(func(l *coordinationv1.Lease) { l.ResourceVersion = "" }),
			"another label":    put(func(l *coordinationv1.Lease) { l.Labels = nil }),
			"a deletion":       {Method: "DELETE"},
			"malformed":        {Method: "PUT", Body: []byte("k8s\x00\x12\xff\x01")},
		} {
			if l.answer(m, path, query) != nil {
				t.Errorf("%s: the process answers an update with %s", mediaType, name)
			}
		}
		if l.answer(put(renewed(6)), path, "dryRun=All") != nil {
			t.Errorf("%s: the process answers a dry run", mediaType)
		}
		if l.allow(false); l.answer(put(renewed(6)), path, query) != nil || l.answer(get, path, query) != nil {
			t.Errorf("%s: the process answers although others use the Lease", mediaType)
		}
	}
}

// The response to a renewal comes before its deadline, and a canceled one fails at once.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := linger(ctx); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %v, want a response after 5s", err, time.Since(began))
		}
		if cancel(); linger(ctx) == nil || time.Since(began) != 5*time.Second {
			t.Errorf("no error after %v, want one after 5s", time.Since(began))
		}
	})
}
