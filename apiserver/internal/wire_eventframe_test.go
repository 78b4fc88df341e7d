package internal_test

import (
	"bytes"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/require"

	"kelson.dev/apiserver/rest/wire"
)

// A frame sent in parts equals the complete frame.
func TestEventAround(t *testing.T) {
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	for _, media := range []string{resource.MediaJSON, resource.MediaProtobuf, resource.MediaCBOR} {
		for _, size := range []int{1, 100, 127, 128, 16_383, 16_384, 1 << 20, 3 << 20} {
			bare := bytes.Repeat([]byte("x"), size)
			want, err := wire.Event(media, watch.Added, gvk, bare)
			require.NoError(t, err)
			before, after, err := wire.EventAround(media, watch.Added, gvk, size)
			if got := bytes.Join([][]byte{before, bare, after}, nil); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %d bytes: %.200q after %.200q, want %.200q (%v)", media, size, before, after, want, err)
			}
		}
	}
}
