//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/kubernetes/test/conformance/testdata"
	"sigs.k8s.io/yaml"
)

// conformanceSpecs returns the names of all conformance specs, from upstream's list.
func conformanceSpecs() ([]string, error) {
	content, err := testdata.GetConformanceTestdataFS().ReadTestFile("test/conformance/testdata/conformance.yaml")
	if err != nil {
		return nil, err
	}
	var list []struct {
		Name string `json:"codename"`
	}
	if err := yaml.Unmarshal(content, &list); err != nil {
		return nil, fmt.Errorf("conformance.yaml: %w", err)
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names, nil
}

// build runs the go command in this module.
func build(ctx context.Context, args ...string) error {
	c := exec.CommandContext(ctx, "go", args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	return c.Run()
}

// stamp returns the linker's flags that set the suite's version, from which some specs derive their
// expectations.
func stamp(kubernetes string) string {
	const name = "k8s.io/component-base/version."
	minor := strings.SplitN(kubernetes, ".", 3)[1] // of v1.38.0
	return fmt.Sprintf("-s -w -X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=1 -X %[1]sgitMinor=%[3]s", name, kubernetes,
		minor)
}

// buildSuite builds upstream's suite and the program that runs it in several processes.
func (o options) buildSuite(ctx context.Context) error {
	if err := build(ctx, "build", "-o", filepath.Join(o.work, "ginkgo"),
		"github.com/onsi/ginkgo/v2/ginkgo"); err != nil || o.suite != "" {
		return err
	}
	return build(ctx, "test", "-c", "-vet=off", "-ldflags="+stamp(o.kubernetes), "-o",
		filepath.Join(o.work, "suite.test"), "./nodes/suite")
}

// runSuite runs specs by name. Failed specs are not an error: the log has the results.
func (o options) runSuite(ctx context.Context, names []string, all bool) error {
	focus := `\[Conformance\]`
	if !all {
		patterns := make([]string, len(names))
		for i, n := range names {
			patterns[i] = pattern(n)
		}
		focus = strings.Join(patterns, "|")
	}
	kubectl := filepath.Join(o.work, "kubectl")
	if err := os.Symlink(filepath.Join(o.bin, "kelson"), kubectl); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	suite := o.suite
	if suite == "" {
		suite = filepath.Join(o.work, "suite.test")
	}
	output, err := os.OpenFile(o.results(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	c := exec.CommandContext(ctx, filepath.Join(o.work, "ginkgo"), "run", fmt.Sprintf("--procs=%d", o.procs),
		"--timeout="+o.limit.String(),
		"--focus="+focus, "--no-color", "-v", "--silence-skips", "--output-interceptor-mode=none", "--keep-going",
		suite, "--",
		"--provider=skeleton", "--kubeconfig="+filepath.Join(o.work, "kubeconfig"), "--kubectl-path="+kubectl,
		"--num-nodes=2", "--dump-logs-on-failure=false", "--test.timeout=0")
	c.Stdout, c.Stderr = output, output
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	var exit *exec.ExitError
	if err := c.Run(); err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return err
	}
	return nil
}
