package webhook

import (
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"kelson.dev/toolchain/marker"
)

// patched returns a webhook with the patch of its marker applied. Unknown fields and invalid
// timeouts are errors.
func patched[T any](b *builder, m *marker.Marker, hook T) (T, bool) {
	if patch := m.String("patch"); patch != "" {
		data, err := json.Marshal(hook)
		if err == nil {
			data, err = strategicpatch.StrategicMergePatch(data, []byte(patch), hook)
		}
		var out T
		if err == nil {
			var strict []error
			strict, err = kjson.UnmarshalStrict(data, &out)
			err = errors.Join(append(strict, err)...)
		}
		if err != nil {
			b.fail(m, "patch: %v", err)
			return hook, false
		}
		hook = out
	}
	var timeout struct{ TimeoutSeconds *int32 }
	if data, err := json.Marshal(hook); err == nil && json.Unmarshal(data, &timeout) == nil {
		if t := timeout.TimeoutSeconds; t != nil && (*t < 1 || *t > 30) {
			b.fail(m, "timeoutSeconds is between 1 and 30, not %d", *t)
			return hook, false
		}
	}
	return hook, true
}
