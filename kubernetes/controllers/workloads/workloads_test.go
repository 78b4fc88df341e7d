package workloads_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"kelson.dev/kubernetes/controllers/workloads"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// inCluster runs a test in virtual time, on a control plane with workloads and a simulated node.
func inCluster(t *testing.T, test func(t *testing.T, env *testenv.Env)) {
	synctest.Test(t, func(t *testing.T) {
		test(t, testenv.New(t, testenv.Workloads(), testenv.Nodes(controlplane.Simulated{})))
	})
}

// A StatefulSet creates its pods one after the other, each when the previous one is ready, and
// deletes them in reverse order. Their claims are kept.
func TestStatefulSet(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		log := podLog(t, env)
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)), ServiceName: "db", Selector: selector("db"), Template: template("db", nil),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				}}},
		}}
		env.Create(t, set)
		after(t, env, time.Minute)
		want := []string{"+db-0", "db-0 ready", "+db-1", "db-1 ready", "+db-2", "db-2 ready"}
		if got := log(); !slices.Equal(got, want) {
			t.Errorf("first: %v, want %v", got, want)
		}
		env.Get(t, set)
		if s := set.Status; s.ReadyReplicas != 3 || s.CurrentRevision == "" || s.UpdateRevision != s.CurrentRevision {
			t.Errorf("status %+v", s)
		}
		set.Spec.Replicas = new(int32(1))
		update(t, env, set)
		after(t, env, 2*time.Minute)
		if got, want := log()[len(want):], []string{"-db-2", "-db-1"}; !slices.Equal(got, want) {
			t.Errorf("then: %v, want %v", got, want)
		}
		if claims := names(t, env, &corev1.PersistentVolumeClaimList{}); !slices.Equal(claims,
			[]string{"data-db-0", "data-db-1", "data-db-2"}) {
			t.Errorf("claims %v", claims)
		}
	})
}

// A DaemonSet creates a pod on the node, replaces it when it is deleted, and creates none on nodes
// that its node selector does not match.
func TestDaemonSet(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{
			Selector: selector("agent"), Template: template("agent", nil),
		}}
		env.Create(t, set)
		after(t, env, time.Minute)
		first := pods(t, env)
		if len(first) != 1 || first[0].Status.Phase != corev1.PodRunning || first[0].Spec.NodeName == "" {
			t.Fatalf("pods: %+v", first)
		}
		if err := env.Client().Delete(t.Context(), &first[0]); err != nil {
			t.Fatal(err)
		}
		after(t, env, 2*time.Minute)
		second := pods(t, env)
		if len(second) != 1 || second[0].UID == first[0].UID || second[0].Status.Phase != corev1.PodRunning {
			t.Errorf("replacement: %+v", second)
		}
		env.Get(t, set)
		if s := set.Status; s.DesiredNumberScheduled != 1 || s.NumberReady != 1 {
			t.Errorf("status %+v", s)
		}
		set.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		update(t, env, set)
		after(t, env, 2*time.Minute)
		env.Get(t, set)
		if left := pods(t, env); len(left) != 0 || set.Status.DesiredNumberScheduled != 0 {
			t.Errorf("left: %+v; status %+v", left, set.Status)
		}
	})
}

// A Job is complete when it has its completions. It fails when its failures reach the limit. Its
// pods are deleted with it.
func TestJob(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		good := job("good", nil)
		good.Spec.Completions, good.Spec.Parallelism = new(int32(3)), new(int32(2))
		env.Create(t, good)
		bad := job("bad", []string{"sh", "-c", "sleep 2; exit 3"})
		bad.Spec.BackoffLimit = new(int32(1))
		env.Create(t, bad)
		after(t, env, 10*time.Minute)
		env.Get(t, good)
		if s := good.Status; s.Succeeded != 3 || s.Failed != 0 ||
			!holds(good, batchv1.JobComplete, "CompletionsReached") {
			t.Errorf("good: %+v", s)
		}
		env.Get(t, bad)
		if s := bad.Status; s.Succeeded != 0 || s.Failed != 2 ||
			!holds(bad, batchv1.JobFailed, "BackoffLimitExceeded") {
			t.Errorf("bad: %+v", s)
		}
		for _, j := range []*batchv1.Job{good, bad} {
			if err := env.Client().Delete(t.Context(), j,
				client.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
				t.Fatal(err)
			}
		}
		after(t, env, time.Minute)
		if left := pods(t, env); len(left) != 0 {
			t.Errorf("%d pods are left", len(left))
		}
	})
}

// A CronJob creates Jobs on schedule, in its time zone. Of the finished ones it keeps only the
// last. A day of virtual time passes immediately.
func TestCronJob(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		var starts []string
		pass := func() { // a day
			for range 48 {
				after(t, env, 30*time.Minute)
				var jobs batchv1.JobList
				list(t, env, &jobs)
				for _, j := range jobs.Items {
					if start := j.CreationTimestamp.UTC().Format("02 15:04"); !slices.Contains(starts, start) {
						starts = append(starts, start)
					}
				}
			}
		}
		cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "report"}, Spec: batchv1.CronJobSpec{
			Schedule: "30 */6 * * *", TimeZone: new("Europe/Berlin"), ConcurrencyPolicy: batchv1.ForbidConcurrent,
			JobTemplate: batchv1.JobTemplateSpec{Spec: job("", nil).Spec},
		}}
		env.Create(t, cron)
		pass() // from midnight (UTC) of January 1, 2000
		want := []string{"01 05:30", "01 11:30", "01 17:30", "01 23:30"}
		if !slices.Equal(starts, want) {
			t.Errorf("Jobs at %v, want %v", starts, want)
		}
		env.Get(t, cron)
		if last := cron.Status.LastSuccessfulTime; last == nil || last.UTC().Format("02 15:04") != "01 23:30" ||
			len(cron.Status.Active) != 0 {
			t.Errorf("status %+v", cron.Status)
		}
		// the default of successfulJobsHistoryLimit
		if left := names(t, env, &batchv1.JobList{}); len(left) != 3 {
			t.Errorf("finished Jobs %v, want 3", left)
		}
		cron.Spec.Suspend = new(true)
		update(t, env, cron)
		pass()
		if !slices.Equal(starts, want) {
			t.Errorf("a suspended CronJob created Jobs: %v", starts)
		}
	})
}

// The EndpointSlices and Endpoints of a Service follow its ready pods; hand-written Endpoints are
// mirrored.
func TestEndpoints(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: selector("web"), Template: template("web", nil),
		}}
		env.Create(t, web)
		ports := []corev1.ServicePort{{Port: 80}}
		env.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: corev1.ServiceSpec{Selector: app("web"), Ports: ports}})
		env.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "outside"},
			Spec: corev1.ServiceSpec{Ports: ports}})
		//nolint:staticcheck // Endpoints are deprecated, and served.
		env.Create(t, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "outside"},
			Subsets: []corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{{IP: "192.0.2.7"}}, Ports: []corev1.EndpointPort{{Port: 8080}},
			}}})
		after(t, env, time.Minute)
		var want []string
		for _, pod := range pods(t, env) {
			want = append(want, pod.Status.PodIP)
		}
		slices.Sort(want)
		if got := ready(t, env, "web"); len(got) != 2 || !slices.Equal(got, want) {
			t.Errorf("ready in slices: %v, pods %v", got, want)
		}
		if got := addresses(t, env, "web"); !slices.Equal(got, want) {
			t.Errorf("in Endpoints: %v, pods %v", got, want)
		}
		if got := ready(t, env, "outside"); !slices.Equal(got, []string{"192.0.2.7"}) {
			t.Errorf("mirrored: %v", got)
		}
		env.Get(t, web)
		web.Spec.Replicas = new(int32(0))
		update(t, env, web)
		after(t, env, 2*time.Minute)
		if slices, endpoints := ready(t, env, "web"), addresses(t, env, "web"); len(slices) != 0 ||
			len(endpoints) != 0 {
			t.Errorf("without pods: slices %v, Endpoints %v", slices, endpoints)
		}
	})
}

// A group starts when an object needs it, and watches only the kinds that it needs. Groups share
// informers.
func TestStartsOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t)
		read := map[string]int{} // watches started, by path
		var mu sync.Mutex
		as := func(u user.Info) *rest.Config {
			config := env.Plane().RESTConfigAs(u)
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if strings.Contains(r.URL.RawQuery, "watch=true") {
						mu.Lock()
						read[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
						mu.Unlock()
					}
					return next.RoundTrip(r)
				})
			})
			return config
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- workloads.New(workloads.Config{Store: env.Plane().Store(), As: as}).Run(ctx) }()
		reads := func(want map[string]int) {
			t.Helper()
			after(t, env, time.Minute)
			mu.Lock()
			defer mu.Unlock()
			if !reflect.DeepEqual(read, want) {
				t.Errorf("watched: %v, want %v", read, want)
			}
		}
		pod := template("alone", nil)
		env.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "alone"}, Spec: pod.Spec})
		reads(map[string]int{})
		env.Create(t, job("first", nil))
		reads(map[string]int{"jobs": 1}) // pods are read from the store
		env.Create(t, job("second", nil))
		env.Create(t, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{
			Selector: selector("agent"), Template: template("agent", nil),
		}})
		reads(map[string]int{"jobs": 1, "daemonsets": 1, "controllerrevisions": 1})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// If the client can't be created, Run returns the error after all goroutines have ended.
func TestUnusableConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t)
		env.Create(t, job("first", nil))
		config := &rest.Config{Host: "http://unreachable.invalid",
			TLSClientConfig: rest.TLSClientConfig{Insecure: true, CAData: []byte("x")}}
		as := func(user.Info) *rest.Config { return rest.CopyConfig(config) }
		err := workloads.New(workloads.Config{Store: env.Plane().Store(), As: as}).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "create client") {
			t.Errorf("error %v", err)
		}
	})
}

// Errors of the controllers are logged at level Debug, and dropped if the handler's level is
// higher.
func TestDebugging(t *testing.T) {
	var text strings.Builder
	level := new(slog.LevelVar)
	plain := slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level})
	log := slog.New(workloads.Debugging(plain)).With("a", 1).WithGroup("g")
	log.Error("retried")
	logr.FromSlogHandler(workloads.Debugging(plain)).Error(errors.New("again"), "retried")
	if text.Len() > 0 {
		t.Errorf("logged: %s", &text)
	}
	level.Set(slog.LevelDebug)
	log.Error("retried", "b", 2)
	if !strings.Contains(text.String(), "level=DEBUG msg=retried a=1 g.b=2") {
		t.Errorf("logged: %s", &text)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func app(name string) map[string]string { return map[string]string{"app": name} }

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: app(name)}
}

func template(name string, command []string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: app(name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Command: command}}},
	}
}

func job(name string, command []string) *batchv1.Job {
	pod := template("", command)
	pod.Labels, pod.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: pod}}
}

func holds(job *batchv1.Job, condition batchv1.JobConditionType, reason string) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue && c.Reason == reason
	})
}

func after(t *testing.T, env *testenv.Env, d time.Duration) {
	t.Helper()
	time.Sleep(d)
	env.Settle(t)
}

func update(t *testing.T, env *testenv.Env, obj client.Object) {
	t.Helper()
	if err := env.Client().Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, env *testenv.Env, into client.ObjectList, opts ...client.ListOption) {
	t.Helper()
	if err := env.Client().List(t.Context(), into, append(opts, client.InNamespace("default"))...); err != nil {
		t.Fatal(err)
	}
}

func pods(t *testing.T, env *testenv.Env) []corev1.Pod {
	t.Helper()
	var found corev1.PodList
	list(t, env, &found)
	return found.Items
}

func names(t *testing.T, env *testenv.Env, into client.ObjectList) (names []string) {
	t.Helper()
	list(t, env, into)
	if err := meta.EachListItem(into, func(obj runtime.Object) error {
		names = append(names, obj.(client.Object).GetName())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// ready returns the ready addresses in the slices of a Service.
func ready(t *testing.T, env *testenv.Env, service string) (addresses []string) {
	t.Helper()
	var found discoveryv1.EndpointSliceList
	list(t, env, &found)
	for _, slice := range found.Items {
		if slice.Labels[discoveryv1.LabelServiceName] != service {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if c := endpoint.Conditions.Ready; c == nil || *c {
				addresses = append(addresses, endpoint.Addresses...)
			}
		}
	}
	slices.Sort(addresses)
	return addresses
}

// addresses returns the ready addresses in the Endpoints of a Service.
func addresses(t *testing.T, env *testenv.Env, service string) (addresses []string) {
	t.Helper()
	// see above
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: service, Namespace: "default"}} //nolint:staticcheck
	env.Get(t, endpoints)
	for _, subset := range endpoints.Subsets {
		for _, address := range subset.Addresses {
			addresses = append(addresses, address.IP)
		}
	}
	slices.Sort(addresses)
	return addresses
}

// follow calls each for every later event of a kind, until the test ends.
func follow(t *testing.T, env *testenv.Env, kind client.ObjectList, each func(watch.Event)) {
	t.Helper()
	stream, err := env.Client().Watch(t.Context(), kind,
		client.ListOptions{Namespace: "default", InitialEvents: true, Bookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stream.Stop)
	go func() {
		for event := range stream.ResultChan() {
			each(event)
		}
	}()
}

// podLog records when pods are created, become ready and are deleted.
func podLog(t *testing.T, env *testenv.Env) func() []string {
	t.Helper()
	var mu sync.Mutex
	var log []string
	follow(t, env, &corev1.PodList{}, func(event watch.Event) {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		isReady := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		switch line := pod.Name + " ready"; {
		case event.Type == watch.Added:
			log = append(log, "+"+pod.Name)
		case event.Type == watch.Deleted:
			log = append(log, "-"+pod.Name)
		case isReady && !slices.Contains(log, line):
			log = append(log, line)
		}
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(log)
	}
}

// The syncs of a ReplicaSet with many pods have pauses, so that it reports changes of many pods at
// once.
func TestReplicaSetWithManyPods(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		const replicas, changes = 200, 20
		labeled := template("web", nil)
		labeled.Labels["extra"] = "x"
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
			Spec: appsv1.ReplicaSetSpec{
				Replicas: new(int32(replicas)), Selector: selector("web"), Template: labeled}}
		env.Create(t, set)
		after(t, env, time.Minute)
		if env.Get(t, set); set.Status.FullyLabeledReplicas != replicas {
			t.Fatalf("status %+v", set.Status)
		}
		var reports atomic.Int32
		follow(t, env, &appsv1.ReplicaSetList{}, func(event watch.Event) {
			if event.Type == watch.Modified {
				reports.Add(1)
			}
		})
		for _, pod := range pods(t, env)[:changes] {
			delete(pod.Labels, "extra")
			update(t, env, &pod)
			synctest.Wait()
		}
		if n := reports.Load(); n != 1 {
			t.Errorf("%d reports of changes at the same time, want 1", n)
		}
		after(t, env, time.Second)
		if env.Get(t, set); set.Status.FullyLabeledReplicas != replicas-changes || reports.Load() != 2 {
			t.Errorf("%d reports; status %+v", reports.Load(), set.Status)
		}
	})
}
