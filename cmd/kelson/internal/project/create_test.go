package project

import (
	"io"
	"testing"
)

func TestSpokeWithoutConversion(t *testing.T) {
	t.Chdir(t.TempDir())
	c := createWebhookCommand()
	c.SetArgs([]string{"--group=batch", "--version=v1", "--kind=CronJob", "--defaulting", "--spoke=v2"})
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	if err := c.ExecuteContext(t.Context()); err == nil || err.Error() != "--spoke has no effect without --conversion" {
		t.Error(err)
	}
}
