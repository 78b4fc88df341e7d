// Command customserver compares a custom API server of kelson.dev/apiserver with
// k8s.io/sample-apiserver: with the same kind, the same cluster for authentication and
// authorization, and a separate etcd for each side. The side in memory shows what the disk costs,
// and the program floor, which answers with prepared bytes, how many requests the clients can send.
//
//	make bench-customserver
//
// It needs KUBECONFIG, which test/against sets. The sides alternate, and the table has the median
// of each figure.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/test/child"
	"kelson.dev/test/peers"
	"kelson.dev/test/section"
)

var (
	bin      = flag.String("bin", "bin/customserver", "folder with the programs ours, sample and floor")
	binaries = flag.String("peers", "bin/peers", "folder with etcd")
	rounds   = flag.Int("rounds", 3, "how often each side is measured")
	objects  = flag.Int("objects", 1000, "how many objects are created")
	only     = flag.String("only", "", "one program: ours, sample or floor; without -docs")
	docs     = flag.String("docs", "", "page whose part is replaced by the table")
)

var flunders = schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1alpha1", Resource: "flunders"}

func main() {
	flag.Parse()
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "customserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	sides := []side{
		{name: "sample-apiserver on etcd", program: "sample", etcd: true},
		{name: "kelson.dev/apiserver on etcd", program: "ours", etcd: true},
		{name: "kelson.dev/apiserver on disk", program: "ours", disk: true},
		{name: "in memory", program: "ours"},
		{name: "prepared answers", program: "floor", disk: true, prepared: true},
	}
	if *only != "" {
		if *docs != "" {
			return errors.New("-only excludes -docs: the page has the table of all sides")
		}
		sides = slices.DeleteFunc(sides, func(s side) bool { return s.program != *only })
		if len(sides) == 0 {
			return fmt.Errorf("-only=%s: no such program", *only)
		}
	}
	results := make([]map[string][]float64, len(sides))
	for i := range results {
		results[i] = map[string][]float64{}
	}
	for _, measure := range []func(side, context.Context) (map[string]float64, error){side.measure, side.measureApart} {
		for range *rounds {
			for i, s := range sides {
				figures, err := measure(s, ctx)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				for name, value := range figures {
					results[i][name] = append(results[i][name], value)
				}
			}
		}
	}
	table := report(sides, results)
	fmt.Print(table)
	if *docs == "" {
		return nil
	}
	return section.Replace(*docs, begin, end, "\n"+table+"\n")
}

// The figures, in the order of the table.
const (
	start   = "start until ready, ms"
	size    = "binary, MB"
	idle    = "resident memory when idle, MB"
	created = "one Go client: create, µs"
	read    = "… get, µs"
	listed  = "… list of all, ms"
	watched = "… create until the watch has it, µs"
	loaded  = "resident memory after that, MB"

	// These figures are of memory and requests with many objects; see load.go.
	crowded    = "resident memory after 10,000 more objects, MB"
	loadCreate = "16 clients: create"
	loadGet    = "16 clients: get"
	loadList   = "one client: list of 10,000, to the last byte"
	loadPatch  = "16 clients: merge patch"
	loadApply  = "16 clients: server-side apply"
	loadDelete = "16 clients: delete"
	loadWatch  = "100 watchers × 1,000 creations by 16 clients: events"

	perSecond = ", per second"
	// apart is for requests per second with the server on one processor and the clients on another.
	apart     = ", per second, processors apart"
	processor = ", µs of processor time"
)

type side struct {
	name, program string
	etcd, disk    bool // where it keeps objects; neither: in memory
	// prepared means that the program answers with prepared bytes: it has no cluster, no objects
	// that a client could decode, and its memory is not a figure of interest.
	prepared bool
}

// measure runs the server once.
func (s side) measure(ctx context.Context) (map[string]float64, error) {
	server, err := s.serve()
	if err != nil {
		return nil, err
	}
	defer server.end()
	figures := map[string]float64{start: float64(server.took.Microseconds()) / 1000}
	if info, err := os.Stat(server.Path); err == nil {
		figures[size] = float64(info.Size()) / 1e6
	}
	if !s.prepared {
		if figures[idle], err = server.used.atRest(); err != nil {
			return nil, err
		}
		if err := verbs(ctx, server.config, figures); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, server.Output())
		}
		if figures[loaded], err = server.used.atRest(); err != nil {
			return nil, err
		}
	}
	if err := loads(ctx, server.config, server.used, !s.prepared, figures); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, server.Output())
	}
	return figures, nil
}

// measureApart runs the server a second time, with its etcd on the first processor; all clients
// use the second one. Call it after all calls of measure, because it binds this process.
func (s side) measureApart(ctx context.Context) (map[string]float64, error) {
	var server *served
	err := onProcessor(0, func() (err error) {
		server, err = s.serve()
		return err
	})
	if err != nil {
		return nil, err
	}
	defer server.end()
	if err := bind(1); err != nil {
		return nil, err
	}
	// sample-apiserver reports that it is ready before its admission plugins are.
	if _, err := server.used.atRest(); err != nil {
		return nil, err
	}
	all, figures := map[string]float64{}, map[string]float64{}
	if err := loads(ctx, server.config, server.used, false, all); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, server.Output())
	}
	for name, value := range all {
		if base, ok := strings.CutSuffix(name, perSecond); ok {
			figures[base+apart] = value
		}
	}
	return figures, nil
}

// served is a running server.
type served struct {
	*child.Process
	config *rest.Config
	used   processes     // the server and its etcd
	took   time.Duration // until it was ready
	end    func()
}

// serve starts the server and waits until it is ready.
func (s side) serve() (_ *served, err error) {
	dir, err := os.MkdirTemp("", "kelson-customserver-")
	if err != nil {
		return nil, err
	}
	ends := []func(){func() { os.RemoveAll(dir) }}
	end := func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	var args []string
	if !s.prepared {
		args = []string{"--kubeconfig=" + os.Getenv("KUBECONFIG"), "--cert-dir=" + filepath.Join(dir, "certs"),
			"--bind-address=127.0.0.1"}
	}
	if s.program == "sample" {
		args = append(args, "--authentication-kubeconfig="+os.Getenv("KUBECONFIG"),
			"--authorization-kubeconfig="+os.Getenv("KUBECONFIG"))
	}
	var used processes
	if s.etcd {
		url, id, stop, err := startEtcd(dir)
		if err != nil {
			return nil, err
		}
		ends = append(ends, stop)
		used = append(used, id)
		args = append(args, "--etcd-servers="+url)
	}
	if s.disk {
		args = append(args, "--data-dir="+filepath.Join(dir, "state"))
	}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	process, err := child.Start(dir, filepath.Join(*bin, s.program), append(args, "--secure-port="+port)...)
	if err != nil {
		return nil, err
	}
	ends = append(ends, func() { process.Stop(30 * time.Second) })
	url := "https://127.0.0.1:" + port
	if err := ready(process, url); err != nil {
		return nil, err
	}
	took := time.Since(begun)
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.Host, config.QPS, config.WarningHandler = url, -1, rest.NoWarnings{}
	config.Insecure, config.CAData = true, nil
	return &served{Process: process, config: config, used: append(used, process.ID), took: took, end: end}, nil
}

func startEtcd(dir string) (url string, id int, end func(), err error) {
	etcd, url, err := peers.Etcd(*binaries, dir)
	if err != nil {
		return "", 0, nil, err
	}
	for range 100 {
		if resp, err := http.Get(url + "/health"); err == nil {
			resp.Body.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return url, etcd.ID, func() { etcd.Stop(10 * time.Second) }, nil
}

func ready(server *child.Process, url string) error {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		Timeout: time.Second}
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		if resp, err := client.Get(url + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-server.Done:
			return fmt.Errorf("ended before it was ready:\n%s", server.Output())
		default:
		}
	}
	return fmt.Errorf("not ready after a minute:\n%s", server.Output())
}

// processes are those of a side: the server and its etcd.
type processes []int

// atRest waits ten seconds, so that both sides can collect the garbage of their last work and
// return memory, and returns the resident memory of the processes in megabytes.
func (p processes) atRest() (sum float64, err error) {
	time.Sleep(10 * time.Second)
	for _, id := range p {
		megabytes, err := resident(id)
		if err != nil {
			return 0, err
		}
		sum += megabytes
	}
	return sum, nil
}

// resident returns the resident memory of a process in megabytes.
func resident(id int) (float64, error) {
	u, err := child.UsageOf(id)
	return float64(u.Resident) / 1024_000, err
}

// verbs measures requests of one client, one after the other.
func verbs(ctx context.Context, config *rest.Config, figures map[string]float64) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	in := client.Resource(flunders).Namespace("default")
	timed := func(name string, n int, do func(i int) error) error {
		times := make([]time.Duration, n)
		for i := range n {
			begun := time.Now()
			if err := do(i); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			times[i] = time.Since(begun)
		}
		slices.Sort(times)
		figures[name] = float64(times[n/2].Nanoseconds()) / 1000
		return nil
	}
	create := func(prefix string) func(int) error {
		return func(i int) error {
			_, err := in.Create(ctx, flunder(fmt.Sprint(prefix, i)), metav1.CreateOptions{})
			return err
		}
	}
	if err := timed(created, *objects, create("a")); err != nil {
		return err
	}
	if err := timed(read, *objects, func(i int) error {
		_, err := in.Get(ctx, fmt.Sprint("a", i), metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	if err := timed(listed, 20, func(int) error {
		_, err := in.List(ctx, metav1.ListOptions{})
		return err
	}); err != nil {
		return err
	}
	figures[listed] /= 1000
	w, err := in.Watch(ctx, metav1.ListOptions{LabelSelector: "new=yes"})
	if err != nil {
		return err
	}
	defer w.Stop()
	return timed(watched, 200, func(i int) error {
		obj := flunder(fmt.Sprint("w", i))
		obj.SetLabels(map[string]string{"new": "yes"})
		sent := make(chan error, 1)
		go func() {
			_, err := in.Create(ctx, obj, metav1.CreateOptions{})
			sent <- err
		}()
		<-w.ResultChan()
		return <-sent
	})
}

func flunder(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"reference": reference},
	}}
}

// reference is the only field of a Flunder's spec that the clients set.
var reference = strings.Repeat("x", 200)
