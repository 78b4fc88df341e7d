package main

import (
	"io"
	"testing"

	"kelson.dev/cmd/kelson/internal/dev"
)

// --until disables reloading, so a command line with both --until and --reload is an error.
func TestReloadWithUntil(t *testing.T) {
	c := dev.Command()
	c.SetArgs([]string{t.TempDir(), "--until=at/a:{.status.phase}=DONE", "--reload"})
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	if err := c.ExecuteContext(t.Context()); err == nil || err.Error() != "--reload has no effect with --until" {
		t.Error(err)
	}
}
