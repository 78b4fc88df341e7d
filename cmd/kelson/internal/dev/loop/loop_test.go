package loop

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"kelson.dev/cmd/kelson/internal/dev/devlog"
	"kelson.dev/cmd/kelson/internal/project"
)

// A build that Ctrl-C stopped is not an error. Other failed builds are.
func TestFailedBuildIsLogged(t *testing.T) {
	var out bytes.Buffer
	l := &Loop{cfg: Config{Project: &project.Project{}, Log: devlog.New(&out, nil)}}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	l.failBuild(stopped, errors.New("signal: killed"))
	if out.Len() > 0 {
		t.Errorf("after Ctrl-C: %s", out.String())
	}
	l.failBuild(t.Context(), errors.New("undefined: x"))
	if !strings.Contains(out.String(), "✗ undefined: x") || strings.Contains(out.String(), "keeps running") {
		t.Errorf("without a former operator: %s", out.String())
	}
}
