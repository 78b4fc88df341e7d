package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scaled measures a large cluster: pods that clients bind to nodes, the cluster at rest, a list of
// all pods with kubectl, and churn, whose pods the scheduler binds.
func scaled(ctx context.Context, count, total int) error {
	s, err := serve(fmt.Sprintf("--nodes=%d", count))
	if err != nil {
		return err
	}
	defer s.stop()
	began := time.Now()
	if err := waitNodes(ctx, s.client, count); err != nil {
		return err
	}
	if err := s.row(fmt.Sprintf("%d nodes until Ready", count), time.Since(began).Seconds(), usage{}); err != nil {
		return err
	}
	if err := s.filled(ctx, count, total); err != nil {
		return err
	}
	if err := pause(ctx, *settle); err != nil {
		return err
	}
	done := s.profile(ctx, fmt.Sprintf("scale-rest-%d", count))
	busy, after, err := s.over(ctx, *period)
	if err != nil {
		return err
	}
	done()
	fmt.Printf("| %d nodes and %d pods at rest | | %.3f of a core | %d MiB | %d MiB | %s |\n",
		count, total, busy, after.private>>20, after.resident>>20, load())
	if err := s.listed(ctx, total); err != nil {
		return err
	}
	return s.churned(ctx, count, total)
}

// row prints the time that something took, and the processor time since before.
func (s *server) row(name string, seconds float64, before usage) error {
	now, err := s.usage()
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %.1f s | %.1f s | %d MiB | %d MiB | %s |\n",
		name, seconds, (now.cpu - before.cpu).Seconds(), now.private>>20, now.resident>>20, load())
	return nil
}

// filled creates pods on nodes and waits until all run.
func (s *server) filled(ctx context.Context, count, total int) error {
	*nodes, *pods = count, total // of create
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "default"}}
	_, err := s.client.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	running, err := s.countRunning(ctx)
	if err != nil {
		return err
	}
	defer running.Close()
	before, err := s.usage()
	if err != nil {
		return err
	}
	done, began := s.profile(ctx, fmt.Sprintf("scale-fill-%d", total)), time.Now()
	if _, err := create(ctx, s.config); err != nil {
		return err
	}
	for running.seen.Load() < int64(total) {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d pods run: %w", running.seen.Load(), total, err)
		}
	}
	name := fmt.Sprintf("%d bound pods on %d nodes until all run", total, count)
	err = s.row(name, time.Since(began).Seconds(), before)
	done()
	return err
}

// runningPods counts the pods that have started to run.
type runningPods struct {
	io.Closer
	seen atomic.Int64
}

// countRunning watches the metadata of pods that run, because the client shares the processors with
// the server: each pod is one small event.
func (s *server) countRunning(ctx context.Context) (*runningPods, error) {
	list, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	r := &runningPods{}
	watch := func(version string) (io.ReadCloser, error) {
		return s.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/pods").
			Param("watch", "1").Param("resourceVersion", version).Param("timeoutSeconds", "3600").
			Param("fieldSelector", "status.phase=Running").
			SetHeader("Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").Stream(ctx)
	}
	stream, err := watch(list.ResourceVersion)
	if err != nil {
		return nil, err
	}
	r.Closer = stream
	go func() {
		lines := bufio.NewScanner(stream)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), `{"type":"ADDED"`) {
				r.seen.Add(1)
			}
		}
	}()
	return r, nil
}

// listed measures kubectl get pods -A.
func (s *server) listed(ctx context.Context, total int) error {
	before, err := s.usage()
	if err != nil {
		return err
	}
	done, began := s.profile(ctx, fmt.Sprintf("scale-list-%d", total)), time.Now()
	cmd := exec.CommandContext(ctx, *kelson, "kubectl", "--kubeconfig", s.kubeconfig, "get", "pods", "-A")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := 0
	for all := bufio.NewScanner(out); all.Scan(); {
		lines++
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	if lines != total+1 {
		return fmt.Errorf("kubectl get pods -A printed %d lines of %d pods", lines, total)
	}
	err = s.row("kubectl get pods -A", time.Since(began).Seconds(), before)
	done()
	return err
}

// churned creates pods at a constant rate, deletes each as soon as it is Ready, and prints the
// latencies. The scheduler does not run while no pod waits for it, so the first pod, which waits
// until the scheduler has read all pods and nodes, is a row of its own.
func (s *server) churned(ctx context.Context, count, total int) error {
	before, err := s.usage()
	if err != nil {
		return err
	}
	first, err := s.churn(ctx, "first", 1)
	if err != nil {
		return err
	}
	if err := s.row("the first pod that the scheduler binds", first[0].Seconds(), before); err != nil {
		return err
	}
	calls, err := s.calls(ctx)
	if err != nil {
		return err
	}
	started, err := s.usage()
	if err != nil {
		return err
	}
	done := s.profile(ctx, fmt.Sprintf("scale-churn-%d", count))
	starts, err := s.churn(ctx, "churn", int(float64(*rate)*churnFor.Minutes()))
	if err != nil {
		return err
	}
	after, err := s.usage()
	if err != nil {
		return err
	}
	done()
	now, err := s.calls(ctx)
	if err != nil {
		return err
	}
	share := (after.cpu - started.cpu).Seconds() / churnFor.Seconds()
	fmt.Printf("| %d pods a minute for %s, with the scheduler: create → Ready, p50 / p99 | %s / %s | %.2f of a core |"+
		" %d MiB | %d MiB | %s |\n",
		*rate, *churnFor, at(starts, 50), at(starts, 99), share, after.private>>20, after.resident>>20, load())
	for _, slow := range now.since(calls).slowest(3) {
		fmt.Printf("| … p99 of %s | %s | | | | |\n", slow.name, slow.p99)
	}
	return nil
}

// churn creates and deletes a number of pods with a label. It returns the sorted times from the
// start of the creation of each pod until a watch sees it Ready.
func (s *server) churn(ctx context.Context, app string, want int) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pods := s.client.CoreV1().Pods("default")
	w, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	var mu sync.Mutex
	began, took := map[string]time.Time{}, map[string]time.Duration{}
	var failed error
	fail := func(err error) {
		if err != nil && ctx.Err() == nil {
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
			cancel()
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		for i := range want {
			if pause(ctx, time.Minute/time.Duration(*rate)) != nil {
				return
			}
			all.Go(func() {
				p := churnedPod(app, i)
				mu.Lock()
				began[p.Name] = time.Now()
				mu.Unlock()
				_, err := pods.Create(ctx, p, metav1.CreateOptions{})
				fail(err)
			})
		}
	})
	late := time.AfterFunc(*churnFor+2*time.Minute, func() {
		fail(errors.New("some pods of the churn do not become Ready"))
	})
	defer late.Stop()
	for e := range w.ResultChan() {
		p, ok := e.Object.(*corev1.Pod)
		if !ok {
			fail(apierrors.FromObject(e.Object))
			break
		}
		if !isReady(p) || p.DeletionTimestamp != nil {
			continue
		}
		mu.Lock()
		_, again := took[p.Name]
		if !again {
			took[p.Name] = time.Since(began[p.Name])
		}
		enough := len(took) == want
		mu.Unlock()
		if !again {
			all.Go(func() { fail(pods.Delete(ctx, p.Name, metav1.DeleteOptions{})) })
		}
		if enough {
			break
		}
	}
	all.Wait()
	sorted := slices.Sorted(maps.Values(took))
	if failed == nil && len(sorted) < want {
		failed = fmt.Errorf("the watch ended after %d of %d pods", len(sorted), want)
	}
	return sorted, failed
}

func churnedPod(app string, i int) *corev1.Pod {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", app, i), Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1",
			Resources: corev1.ResourceRequirements{Requests: requests}}}},
	}
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// histogram has the cumulative counts of requests by the upper bound of their duration in seconds.
type histogram map[float64]float64

// requests are the durations of a server's requests, by resource, verb and scope, as in SIG
// Scalability's objectives: without watches and without the time of webhooks.
type requests map[string]histogram

// calls reads the requests from the metrics of the server.
func (s *server) calls(ctx context.Context) (requests, error) {
	text, err := s.client.CoreV1().RESTClient().Get().AbsPath("/metrics").
		SetHeader("Accept", "text/plain").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	all := requests{}
	for line := range strings.Lines(string(text)) {
		labels, ok := strings.CutPrefix(line, "apiserver_request_sli_duration_seconds_bucket{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(labels, "} ")
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return nil, err
		}
		by := map[string]string{}
		for label := range strings.SplitSeq(labels, ",") {
			name, value, _ := strings.Cut(label, "=")
			by[name] = strings.Trim(value, `"`)
		}
		bound, err := strconv.ParseFloat(by["le"], 64) // +Inf, too
		if err != nil {
			return nil, err
		}
		name := strings.TrimSpace(by["verb"]+" "+by["resource"]+" "+by["subresource"]) + ", scope " + by["scope"]
		if all[name] == nil {
			all[name] = histogram{}
		}
		all[name][bound] += n
	}
	if len(all) == 0 {
		return nil, errors.New("the server has no apiserver_request_sli_duration_seconds")
	}
	return all, nil
}

// since returns the requests without those that were counted before.
func (r requests) since(before requests) requests {
	out := requests{}
	for name, h := range r {
		out[name] = histogram{}
		for bound, n := range h {
			out[name][bound] = n - before[name][bound]
		}
	}
	return out
}

// p99 is the upper bound of the 99th percentile of some requests.
type p99 struct {
	name string
	p99  time.Duration
}

// slowest returns the requests with the longest p99 among those that were sent at least a hundred
// times.
func (r requests) slowest(most int) (all []p99) {
	for name, h := range r {
		bounds := slices.Sorted(maps.Keys(h))
		total := h[bounds[len(bounds)-1]]
		if total < 100 {
			continue
		}
		for _, bound := range bounds {
			if h[bound] >= total*0.99 {
				all = append(all, p99{fmt.Sprintf("%s (%.0f times) at most", name, total),
					time.Duration(bound * float64(time.Second))})
				break
			}
		}
	}
	slices.SortFunc(all, func(a, b p99) int { return int(b.p99 - a.p99) })
	return all[:min(most, len(all))]
}
