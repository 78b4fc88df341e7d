package apitest_test

import (
	"testing"
	"testing/synctest"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
)

// A shutdown ends watches cleanly.
func TestShutdownEndsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := apitest.New(t)
		s := p.Watch(t, "/api/v1/configmaps?watch=1")
		require.NoError(t, p.Shutdown(t.Context()))
		if typ, obj, ok := s.Next(t); ok {
			t.Errorf("after shutdown: %s %v", typ, obj)
		}
	})
}
