// Command nodes measures simulated pods on simulated nodes: the time until all are Ready, the
// memory of the servers, and the delay with which watches see changes. It runs Kelson, with its
// simulation and with KWOK's Stages, or KWOK on the kube-apiserver of KUBECONFIG.
//
//	nodes -kelson bin/kelson                                    # Kelson's simulation
//	nodes -kelson bin/kelson -stages                            # KWOK's Stages in Kelson
//	go run ./test/against -- bin/nodes -kwok bin/peers/kwok     # KWOK; both programs must be built
//	nodes -kelson bin/kelson -rows rest,deployments -profiles /tmp # clusters, without a peer
//	nodes -kelson bin/kelson -rows scale -scale-nodes 500 -scale-pods 15000 # a large cluster, at a tenth of its size
//
// The client binds all pods to their nodes, because KWOK has no scheduler. The client and the
// servers share the CPUs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

var (
	kelson  = flag.String("kelson", "", "the kelson binary")
	kwok    = flag.String("kwok", "", "the kwok binary, for the server of KUBECONFIG")
	nodes   = flag.Int("nodes", 100, "number of nodes")
	pods    = flag.Int("pods", 10_000, "number of pods")
	clients = flag.Int("clients", 32, "clients that create pods at the same time")
	scripts = flag.Bool("stages", false, "Kelson runs KWOK's fast Stages of pods instead of its simulation")
	limit   = flag.Duration("limit", 15*time.Minute, "time limit for one side")

	rows       = flag.String("rows", "", "measure these rows of clusters instead, separated by commas: rest, deployments, scale")
	scaleNodes = flag.Int("scale-nodes", 5000, "number of nodes of the row scale")
	scalePods  = flag.Int("scale-pods", 150_000, "number of pods of the row scale")
	rate       = flag.Int("churn", 1000, "pods a minute that the churn of the row scale creates and deletes")
	churnFor   = flag.Duration("churn-for", 2*time.Minute, "how long the churn of the row scale lasts")
	settle     = flag.Duration("settle", 40*time.Second, "how long nodes rest before they are measured")
	period     = flag.Duration("period", 40*time.Second, "how long a cluster at rest is measured")
	profiles   = flag.String("profiles", "", "folder for profiles of kelson serve")
	profileFor = flag.Duration("profile-for", 30*time.Second, "how long the processor is profiled")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "nodes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if (*kelson == "") == (*kwok == "") {
		return errors.New("want either -kelson or -kwok")
	}
	if *rows != "" {
		return ofClusters(ctx, strings.Split(*rows, ","))
	}
	fmt.Printf("| %d pods on %d nodes | until all are Ready | processor time | create → Ready seen by a watch, p50 / p99 | create → first event, p50 / p99 | private memory | resident memory |\n|---|--:|--:|--:|--:|--:|--:|\n", *pods, *nodes)
	if *kwok != "" {
		return ofKWOK(ctx)
	}
	if !*scripts {
		return ofKelson(ctx, "Kelson, simulation")
	}
	stages, err := kwoksStages("pod/fast")
	if err != nil {
		return err
	}
	return ofKelson(ctx, "Kelson, KWOK's Stages", "--stages="+stages[0])
}

// kwoksStages returns folders and files of KWOK's Stages, in the Go tool's cache.
func kwoksStages(names ...string) (paths []string, err error) {
	out, err := exec.Command("go", "mod", "download", "-json", "sigs.k8s.io/kwok@v0.8.0").Output()
	if err != nil {
		return nil, fmt.Errorf("download KWOK's module: %w", err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, err
	}
	for _, name := range names {
		paths = append(paths, filepath.Join(module.Dir, "kustomize", "stage", name))
	}
	return paths, nil
}

func ofKelson(ctx context.Context, name string, more ...string) error {
	s, err := serve(append([]string{"--nodes=" + strconv.Itoa(*nodes)}, more...)...)
	if err != nil {
		return err
	}
	defer s.stop()
	return measure(ctx, name, s)
}

func ofKWOK(ctx context.Context) error {
	kubeconfig := os.Getenv("KUBECONFIG")
	stages, err := kwoksStages("node/fast/node-initialize.yaml",
		"node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
		"pod/fast/pod-ready.yaml", "pod/fast/pod-complete.yaml", "pod/fast/pod-delete.yaml")
	if err != nil {
		return err
	}
	args := []string{"--kubeconfig=" + kubeconfig, "--manage-all-nodes=true", "--node-ip=10.0.0.1",
		"--cidr=10.128.0.0/9", "--node-lease-duration-seconds=40", "--v=ERROR"}
	for _, file := range stages {
		args = append(args, "--config="+file)
	}
	// Discard KWOK's log, which would be long: KWOK retries pods that it has already changed.
	cmd := exec.Command(*kwok, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	defer end(cmd)
	servers, err := siblings()
	if err != nil {
		return err
	}
	config, c, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	return measure(ctx, "KWOK on kube-apiserver and etcd",
		&server{config: config, client: c, ids: append(servers, cmd.Process.Pid)})
}

// siblings returns the other processes of this one's parent: the servers.
func siblings() (ids []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		id, err := strconv.Atoi(entry.Name())
		if err != nil || id == os.Getpid() {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // the process has ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getppid()) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// measure measures pods that clients bind to nodes.
func measure(ctx context.Context, name string, s *server) error {
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if err := prepareNodes(ctx, s.client); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "default"}}
	// The namespace may exist.
	_, _ = s.client.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{})
	seen, err := follow(ctx, s.client)
	if err != nil {
		return err
	}
	before, err := s.usage()
	if err != nil {
		return err
	}
	done := s.profile(ctx, "bound")
	began := time.Now()
	created, err := create(ctx, s.config)
	if err != nil {
		return err
	}
	if err := seen.wait(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	took := time.Since(began)
	after, err := s.usage()
	if err != nil {
		return err
	}
	done()
	first, ready := latencies(created, seen.first), latencies(created, seen.ready)
	if seen.ended > 0 {
		name += fmt.Sprintf(" (the server ended the watch %d times)", seen.ended)
	}
	fmt.Printf("| %s | %.1f s | %.1f s | %s / %s | %s / %s | %d MiB | %d MiB |\n", name, took.Seconds(),
		(after.cpu - before.cpu).Seconds(),
		at(ready, 50), at(ready, 99), at(first, 50), at(first, 99), after.private>>20, after.resident>>20)
	return nil
}

// prepareNodes creates the nodes if the server does not, and waits until all are Ready.
func prepareNodes(ctx context.Context, c *kubernetes.Clientset) error {
	if *kwok != "" {
		for i := range *nodes {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i),
				Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}}
			if _, err := c.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return waitNodes(ctx, c, *nodes)
}

// waitNodes waits until a number of nodes are Ready.
func waitNodes(ctx context.Context, c *kubernetes.Clientset, want int) error {
	for {
		list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		count := 0
		for _, n := range list.Items {
			if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}) {
				count++
			}
		}
		if count == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d nodes are Ready: %w", count, want, ctx.Err())
		// The list costs the server time.
		case <-time.After(max(100*time.Millisecond, time.Duration(want)*time.Millisecond)):
		}
	}
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

// create creates the pods and returns the start times of the requests.
func create(ctx context.Context, config *rest.Config) (map[string]time.Time, error) {
	began := make(map[string]time.Time, *pods)
	var mu sync.Mutex
	var failed error
	work := make(chan int)
	var all sync.WaitGroup
	for range *clients {
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		all.Go(func() {
			for i := range work {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i),
					Labels: map[string]string{"app": "bench"}}, Spec: corev1.PodSpec{
					NodeName:   nodeName(i % *nodes),
					Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}},
				}}
				at := time.Now()
				_, err := c.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
				mu.Lock()
				began[p.Name] = at
				if err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	for i := range *pods {
		work <- i
	}
	close(work)
	all.Wait()
	return began, failed
}

// sightings has the times at which a watch saw each pod for the first time, and Ready.
type sightings struct {
	first, ready map[string]time.Time
	ended        int // watches that the server ended
	done         chan struct{}
	err          error
}

func (s *sightings) wait(ctx context.Context) error {
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follow watches pods until all are Ready. If the server ends the watch, which kube-apiserver does
// with slow ones, it lists the pods and watches again, as an informer does.
func follow(ctx context.Context, c *kubernetes.Clientset) (*sightings, error) {
	list, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	s := &sightings{first: map[string]time.Time{}, ready: map[string]time.Time{}, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for version := list.ResourceVersion; s.err == nil && len(s.ready) < *pods; {
			version, s.err = s.watch(ctx, c, version)
		}
	}()
	return s, nil
}

// watch processes events until the watch ends or all pods are Ready, and returns the version from
// which to continue.
func (s *sightings) watch(ctx context.Context, c *kubernetes.Clientset, version string) (string, error) {
	w, err := c.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return "", err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Error {
			s.take(p)
		}
		if len(s.ready) == *pods {
			return "", nil
		}
	}
	s.ended++
	list, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range list.Items {
		s.take(&list.Items[i])
	}
	return list.ResourceVersion, nil
}

func (s *sightings) take(p *corev1.Pod) {
	now := time.Now()
	if _, ok := s.first[p.Name]; !ok {
		s.first[p.Name] = now
	}
	if _, ok := s.ready[p.Name]; !ok && isReady(p) {
		s.ready[p.Name] = now
	}
}

func latencies(from, to map[string]time.Time) (all []time.Duration) {
	for name, began := range from {
		all = append(all, to[name].Sub(began))
	}
	slices.Sort(all)
	return all
}

func at(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)].Round(100 * time.Microsecond)
}
