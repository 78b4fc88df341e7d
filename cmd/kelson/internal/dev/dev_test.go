package dev

import (
	"io"
	"testing"
)

// --until disables reloading, so that it cannot be requested at the same time.
func TestReloadWithUntil(t *testing.T) {
	c := Command()
	c.SetArgs([]string{t.TempDir(), "--until=at/a:{.status.phase}=DONE", "--reload"})
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	if err := c.ExecuteContext(t.Context()); err == nil || err.Error() != "--reload has no effect with --until" {
		t.Error(err)
	}
}
