package flags

import (
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
)

// The flag is a size or auto, and other values are errors that name it.
func TestMemoryBudget(t *testing.T) {
	const live = 1 << 30
	for value, want := range map[string]int64{
		"": store.AutomaticBudget(live), "auto": store.AutomaticBudget(live), "256MiB": 256 << 20, "1Gi": 1 << 30,
		"64M": 64e6, "1048576": 1 << 20,
	} {
		o := Memory{budget: value}
		if err := o.Check(); err != nil {
			t.Errorf("%q: %v", value, err)
		} else if got := o.Budget()(live); got != want && (value != "" && value != "auto" || got > want) {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
	for _, value := range []string{"0", "-1", "lots", "100k", "16KiB", "1.5.2Gi"} {
		o := Memory{budget: value}
		assert.ErrorContainsf(t, o.Check(), "--memory-budget", "%q", value)
	}
}
