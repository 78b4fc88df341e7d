package operator

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/internal/apitest"
)

// Main may release the memory of the process, unless KELSON_KEEP_MEMORY is set.
func TestOwnsProcess(t *testing.T) {
	t.Cleanup(func() { ownsProcess.Store(false) })
	for value, want := range map[string]bool{"": true, "false": true, "true": false} {
		ownsProcess.Store(!want)
		flags := flag.NewFlagSet("test", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		getenv := func(name string) string { return map[string]string{"KELSON_KEEP_MEMORY": value}[name] }
		// -h ends the program before it changes other settings of the process
		code := (program{args: []string{"test", "-h"}, getenv: getenv, flags: flags, alone: true}).run(t.Context(),
			nil)
		assert.Equalf(t, code, 0, "exit code")
		assert.Equalf(t, ownsProcess.Load(), want, "KELSON_KEEP_MEMORY=%s: owns the process", value)
	}
}

// An operator releases memory of its process only if the process is its own.
func TestReleasesOwnMemoryOnly(t *testing.T) {
	before := releaseMemory
	t.Cleanup(func() {
		releaseMemory = before
		ownsProcess.Store(false)
	})
	for _, owns := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var released atomic.Int32
			releaseMemory = func() { released.Add(1) }
			ownsProcess.Store(owns)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := Run(ctx, Config{REST: apitest.New().REST(), Log: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			if want := map[bool]int32{true: 1}[owns]; released.Load() != want {
				t.Errorf("owns the process: %v; released %d times, want %d", owns, released.Load(), want)
			}
		})
	}
}
