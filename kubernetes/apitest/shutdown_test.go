package apitest_test

import (
	"testing"
	"testing/synctest"

	"kelson.dev/kubernetes/apitest"
)

// A shutdown ends watches cleanly.
func TestShutdownEndsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := apitest.New(t)
		s := p.Watch(t, "/api/v1/configmaps?watch=1")
		if err := p.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if typ, obj, ok := s.Next(t); ok {
			t.Errorf("after shutdown: %s %v", typ, obj)
		}
	})
}
