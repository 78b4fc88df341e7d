package operator

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/operator/internal/apitest"
)

// RUN-10: an operator releases memory of its process only if the process is its own.
func TestReleasesOwnMemoryOnly(t *testing.T) {
	before := releaseMemory
	t.Cleanup(func() {
		releaseMemory = before
		ownsProcess.Store(false)
	})
	for _, owns := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			released := 0
			releaseMemory = func() { released++ }
			ownsProcess.Store(owns) // as Main does
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := Run(ctx, Config{REST: apitest.New().REST(), Log: slog.New(slog.DiscardHandler)}); err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{true: 1}[owns]; released != want {
				t.Errorf("owns the process: %v; released %d times, want %d", owns, released, want)
			}
		})
	}
}
