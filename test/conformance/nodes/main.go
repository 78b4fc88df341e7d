//go:build linux

// Command nodes runs Kubernetes' conformance specs against Kelson with two real nodes, and writes
// the results into the documentation. make conformance-nodes builds the programs that it needs.
//
//	cd test/conformance && GOWORK=off go run ./nodes -kelson ../../bin/kelson -work /var/tmp/conformance
//
// The specs are upstream's, linked unchanged (package suite). The command builds the images that
// they deploy from Kubernetes' sources and from programs of this machine (images.go), so that it
// needs no registry. The cluster runs in process, mount and network namespaces of its own: it does
// not change the network of the machine, does not conflict with other clusters on it, and the
// kernel removes it when the command ends.
//
// The command needs root, containerd, runc, the CNI plugins, nftables, a C compiler and the
// programs of the images: busybox-static, bash, curl, dig, iperf, iproute2, netcat-openbsd, nginx.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"kelson.dev/test/conformance/version"
)

type options struct {
	bin    string // folder with kelson, kelson-node and etcd
	dns    string
	suite  string
	work   string
	docs   string
	only   string
	again  bool
	procs  int
	limit  time.Duration
	hold   bool
	inside bool

	kubernetes string // the version of the specs
}

// results returns the log to which the output of each run of the suite is appended.
func (o options) results() string { return filepath.Join(o.work, "suite.log") }

// archive returns the archive of all images.
func (o options) archive() string { return filepath.Join(o.work, "images", "images.tar") }

func main() {
	log.SetFlags(log.Ltime)
	log.SetPrefix("conformance: ")
	var o options
	flag.StringVar(&o.bin, "bin", "../../bin", "folder with kelson, kelson-node, peers/etcd and peers/wardle")
	flag.StringVar(&o.dns, "dns", "../../bin/kelson-dns",
		"the DNS server of the cluster, a CoreDNS; built into an image")
	flag.StringVar(&o.suite, "suite", "", "the test binary; built when empty")
	flag.StringVar(&o.work, "work", "/var/tmp/kelson-conformance",
		"folder of images, state, results and logs; specs that have passed there are not run again")
	flag.StringVar(&o.docs, "docs", "", "page with the section to rewrite")
	flag.StringVar(&o.only, "only", "", "regular expression over the names of the specs to run")
	flag.BoolVar(&o.again, "again", false, "forget the results in the folder -work")
	flag.IntVar(&o.procs, "procs", 4, "maximum number of specs that run at a time; some must run alone")
	flag.DurationVar(&o.limit, "limit", 3*time.Hour, "time limit for all specs")
	flag.BoolVar(&o.hold, "hold", false, "start the cluster and keep it until a signal arrives, instead of running specs; nsenter -a -t PID enters it")
	flag.BoolVar(&o.inside, "inside", false, "run in the namespaces that the command has created; internal")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options) (err error) {
	for _, p := range []*string{&o.bin, &o.dns, &o.work} {
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	specs, err := conformanceSpecs()
	if err != nil {
		return err
	}
	if o.inside {
		return o.inNamespaces(ctx, specs, only)
	}
	if os.Geteuid() != 0 {
		return errors.New("nodes with containers need root")
	}
	if err := os.MkdirAll(o.work, 0o755); err != nil {
		return err
	}
	if o.again {
		if err := os.Remove(o.results()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if o.kubernetes, err = version.Kubernetes(ctx); err != nil {
		return err
	}
	if err := o.buildSuite(ctx); err != nil {
		return fmt.Errorf("build the suite: %w", err)
	}
	if err := o.buildImages(ctx); err != nil {
		return fmt.Errorf("build the images: %w", err)
	}
	began := time.Now()
	err = isolate(ctx)
	removeCgroups()
	if err != nil {
		return err
	}
	found, err := readResults(o.results(), specs)
	if err != nil {
		return err
	}
	log.Printf("%s after %s", found.counts(), time.Since(began).Round(time.Second))
	if o.docs == "" {
		return nil
	}
	return writeSection(o.docs, found.markdown(o.kubernetes))
}

// inNamespaces starts the cluster and runs the specs that have not passed yet.
func (o options) inNamespaces(ctx context.Context, specs []string, only *regexp.Regexp) error {
	found, err := readResults(o.results(), specs)
	if err != nil {
		return err
	}
	var missing []string
	for _, r := range found {
		if r.State != passed && only.MatchString(r.Name) {
			missing = append(missing, r.Name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := prepareNamespaces(ctx); err != nil {
		return fmt.Errorf("prepare namespaces: %w", err)
	}
	closeRegistry, err := o.serveImages()
	if err != nil {
		return fmt.Errorf("serve the images: %w", err)
	}
	defer func() { _ = closeRegistry() }()
	c, err := o.startCluster(ctx)
	if err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	defer c.stop()
	if o.hold {
		log.Printf("the cluster of %s is ready", c.kubeconfig)
		<-ctx.Done()
		return nil
	}
	log.Printf("running %d of %d specs; the log is %s", len(missing), len(specs), o.results())
	return o.runSuite(ctx, missing, len(missing) == len(specs))
}
