package simulated

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilexec "k8s.io/utils/exec"

	"kelson.dev/kubernetes/node"
)

// Simple commands are simulated, and others are refused.
func TestExec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := specOf(corev1.RestartPolicyAlways, nil)
		spec.Env = []corev1.EnvVar{{Name: "NAME", Value: "world"}}
		c, err := sandboxOf(t, t.Context(), spec).Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		began := time.Now()
		err = c.(node.Executor).Exec(t.Context(), []string{"sh", "-c", "echo hello $NAME; sleep 60; exit 3"},
			node.Streams{Stdout: &out})
		var exit utilexec.ExitError
		if out.String() != "hello world\n" || !errors.As(err, &exit) || exit.ExitStatus() != 3 ||
			time.Since(began) != time.Minute {
			t.Errorf("%q %v after %v", out.String(), err, time.Since(began))
		}
		if err := c.(node.Executor).Exec(t.Context(), []string{"ls", "-l"}, node.Streams{}); !errors.Is(err,
			errNotExecuted) {
			t.Errorf("%v", err)
		}
		time.AfterFunc(time.Second, func() { c.Stop(0) })
		if err := c.(node.Executor).Exec(t.Context(), []string{"sleep", "60"}, node.Streams{}); !errors.As(err,
			&exit) || exit.ExitStatus() != 137 {
			t.Errorf("%v", err)
		}
	})
}
