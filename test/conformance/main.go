// Command conformance runs Kubernetes' conformance specs of sig-api-machinery against its own
// Kelson and writes the results into the documentation.
//
//	cd test/conformance && GOWORK=off go run . -kelson ../../bin/kelson
//
// The specs are those of k8s.io/kubernetes/test/e2e/apimachinery, linked unchanged into the test
// binary of this folder (suite_test.go). Only the entry point differs: upstream's also links the
// specs of all other special interest groups, and with them kube-apiserver and the kubelet.
// specs.txt lists the specs that need no running pods, or only pods that backends.go simulates. The
// module is not part of go.work, because only the specs need its dependencies.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"kelson.dev/test/conformance/version"
)

//go:embed specs.txt
var specList string

type options struct {
	kelson, suite, docs, work, peers string
	only                             *regexp.Regexp
	parallel                         int
	limit                            time.Duration
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("conformance: ")
	var opts options
	flag.StringVar(&opts.kelson, "kelson", "../../bin/kelson", "the binary to test")
	flag.StringVar(&opts.suite, "suite", "", "the test binary; built when empty")
	flag.StringVar(&opts.peers, "peers", "../../bin/peers",
		"folder with etcd and wardle, for the spec of the Aggregator")
	flag.StringVar(&opts.docs, "docs", "", "page with the section to rewrite; requires a run of all specs")
	flag.StringVar(&opts.work, "work", "", "folder for reports and logs; a spec that has a report there is not run again (default a new folder)")
	flag.IntVar(&opts.parallel, "parallel", 8, "maximum number of specs that run at a time; some must run alone")
	flag.DurationVar(&opts.limit, "limit", 8*time.Minute,
		"the time a spec may take, because some wait forever after a failure")
	only := flag.String("only", "", "regular expression over the names in specs.txt")
	flag.Parse()
	opts.only = regexp.MustCompile(*only)
	if *only != "" && opts.docs != "" {
		log.Fatal("-docs needs all specs: omit -only")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, opts); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, opts options) (err error) {
	if opts.work == "" {
		if opts.work, err = os.MkdirTemp("", "conformance-"); err != nil {
			return err
		}
	}
	if opts.suite == "" {
		opts.suite = filepath.Join(opts.work, "suite.test")
		log.Print("building the suite; the first time this takes several minutes")
		build := command(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", opts.suite, ".")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build suite: %w", err)
		}
	}
	kubeconfig, stop, err := serve(ctx, opts)
	if err != nil {
		return fmt.Errorf("start kelson: %w", err)
	}
	defer stop()

	serving, end := context.WithCancel(ctx)
	defer end()
	if err := serveBackends(serving, opts, kubeconfig); err != nil {
		return fmt.Errorf("serve backends: %w", err)
	}
	kubectl, err := linkKubectl(opts)
	if err != nil {
		return err
	}
	begin := time.Now()
	results := (&runner{opts, kubeconfig, kubectl}).run(ctx, names(opts.only))
	if err := ctx.Err(); err != nil {
		return err
	}
	log.Printf("%s in %s; the logs are in %s", results.counts(), time.Since(begin).Round(time.Second), opts.work)
	if opts.docs != "" {
		kubernetes, err := version.Kubernetes(ctx)
		if err != nil {
			return err
		}
		return writeSection(opts.docs, results.markdown(kubernetes))
	}
	return nil
}

// names are the specs to run.
func names(only *regexp.Regexp) (names []string) {
	for name := range strings.Lines(specList) {
		if name = strings.TrimSpace(name); name != "" && only.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// serve starts a control plane with a ready simulated node. stop ends the control plane and waits.
func serve(ctx context.Context, opts options) (kubeconfig string, stop func(), err error) {
	kubeconfig = filepath.Join(opts.work, "kubeconfig")
	logs, err := os.Create(filepath.Join(opts.work, "kelson.log"))
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := command(ctx, opts.kelson, "serve", "--in-memory", "--secure-port", "0", "--kubeconfig", kubeconfig)
	c.Stderr = logs
	stop = func() {
		cancel()
		_ = c.Wait() // cancel kills it
		logs.Close()
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		stop()
		return "", nil, err
	}
	ready, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("kelson ended early: see %s", logs.Name())
	}
	log.Print(strings.TrimSpace(ready))
	return kubeconfig, stop, nil
}

// linkKubectl creates the link kubectl to the binary, which includes kubectl.
func linkKubectl(opts options) (path string, err error) {
	target, err := filepath.Abs(opts.kelson)
	if err != nil {
		return "", err
	}
	path = filepath.Join(opts.work, "kubectl")
	if err := os.Symlink(target, path); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("link kubectl: %w", err)
	}
	return path, nil
}

// command returns a command that gets SIGTERM, not SIGKILL, when ctx ends.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	return c
}
