package kubernetes_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/bootstrappolicy"
)

// After a failed update of the priority and fairness objects, the next one follows without another
// change.
func TestMaintainFlowsTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := store.Open(store.Config{})
		require.NoError(t, err)
		defer st.Close()
		attempts := 0
		config := &rest.Config{Host: "http://unreachable", Transport: roundTripper(
			func(*http.Request) (*http.Response, error) { return nil, errors.New("unreachable") })}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- bootstrappolicy.MaintainFlows(ctx, bootstrappolicy.Config{Store: st,
				REST: func() *rest.Config { attempts++; return config }})
		}()
		synctest.Wait()
		_, err = st.Commit(t.Context(), store.Op{Key: store.Key{
			Resource: "flowschemas.flowcontrol.apiserver.k8s.io", Name: "a"}, Data: []byte(`{"metadata":{"name":"a"}}`)})
		require.NoError(t, err)
		time.Sleep(5*time.Minute + time.Second)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || attempts != 5 {
			t.Errorf("%v, %d attempts in five minutes, want one each minute", err, attempts)
		}
	})
}
